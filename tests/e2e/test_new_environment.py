"""A new environment works as it is written: its test, its check, its audit and its run, each in its own process."""

from __future__ import annotations

import json

import pytest

from tests.cli.test_imports import PROGRAM

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]


@pytest.fixture(scope="module")
def cups(make_home):
    """A folder with a new environment."""
    home = make_home("new")
    made = home.rlft("environments", "new", "cups")
    assert made.code == 0, made.output
    for command in ("environments check cups.py:Cups --tasks cups.jsonl", "audit cups.yaml", "run cups.yaml"):
        assert f"rlft {command}" in made.output
    assert "pytest test_cups.py" in made.output
    return home


def test_its_own_test_passes(cups):
    done = cups.python("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_cups.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 passed" in done.stdout


def test_its_check_finds_nothing(cups):
    shown = cups.rlft("environments", "check", "cups.py:Cups", "--tasks", "cups.jsonl")
    assert shown.code == 0, shown.output
    assert 'price(article="A1")' in shown.output
    assert "problems: none" in shown.output
    report = json.loads(
        cups.module("tests.e2e.driver", "-", "environments", "check", "cups.py:Cups", "--tasks", "cups.jsonl",
                    "--json").stdout
    )  # fmt: skip
    assert (report["gold"], report["silence"], report["problems"]) == (True, True, [])
    assert report["rollout"]["total"] == 1.0


def test_its_audit_passes(cups):
    result = cups.rlft("audit", "cups.yaml")
    assert result.code == 0, result.output
    assert "- " not in result.output  # a finding
    told = cups.rlft("audit", "cups.yaml", "--json")
    report = json.JSONDecoder().raw_decode(told.output)[0]  # stdout comes first, and has nothing else
    assert (report["passed"], report["findings"]) == (True, [])
    assert report["attacks"]["gold"]["mean"] == 1.0


@pytest.fixture(scope="module")
def ran(cups):
    """A finished run of the new config."""
    result = cups.rlft("run", "cups.yaml", "--set", "controls=[sft]")
    assert result.code == 0, result.output
    return cups, result


def test_it_runs_and_its_tool_is_called(ran):
    _, result = ran
    assert result.summary["status"] in ("improved", "not_improved")
    assert result.summary["baseline"]["rewards/looked_up"] > 0.5
    assert result.summary["ledger"]["errored"] == 0


def test_its_rollouts_are_shown_as_they_are_stored(ran):
    home, result = ran
    run = result.summary["pipeline_run_id"]
    stored = home.query(f"""
run = client.get_pipeline_run("{run}")
def output(step, name):
    return run.steps[step].outputs[name][0].load()
rollouts, rewards = output("generate_rollouts_r001", "rollouts"), output("score_rewards_r001", "rewards")
fates = output("train_grpo_r001", "train_report").fates
print(json.dumps([[r.rollout_id, r.messages, s.total, s.parts, fates[r.rollout_id], int(r.loss_mask.sum())]
                  for r, s in zip(rollouts, rewards)]))
""")
    listed = json.loads(show(home, run, "1", "--json"))
    assert [row["rollout_id"] for row in listed] == [row[0] for row in stored]
    assert [row["total"] for row in listed] == [row[2] for row in stored]
    record = json.loads(show(home, run, "1", stored[3][0], "--json"))
    assert record == json.loads(show(home, "cups", "r001", "3", "--json"))
    assert [record["messages"], record["reward"]["total"], record["reward"]["parts"]] == stored[3][1:4]
    assert [record["fate"], record["tokens"]["sampled"]] == stored[3][4:]
    assert record["reward"]["weights"] == {"correct": 1.0, "looked_up": 0.0}
    text = show(home, run, "1", "3")
    assert f'price(article="{record["state"]["looked_up"][0]}")' in text
    assert "tool price" in text
    assert "rollouts of trained" in show(home, run, "trained")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["cups", "nowhere"], "there are: baseline"), (["cups", "base", "zzz"], "has no rollout 'zzz'"),
     (["plates", "0"], "no run is called 'plates'")],
)  # fmt: skip
def test_what_is_not_there_is_named(ran, arguments, said):
    result = ran[0].rlft("show", *arguments)
    assert result.code == 2
    assert said in result.output
    assert "Traceback" not in result.output


def show(home, *arguments):
    """What `rlft show` writes to stdout."""
    done = home.module("tests.e2e.driver", "-", "show", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_not_written_twice(cups):
    again = cups.rlft("environments", "new", "cups")
    assert again.code == 2
    assert "there already: cups.py, test_cups.py, cups.jsonl, cups.yaml" in again.output


def test_show_reads_files_without_zenml_or_the_libraries_of_models(ran):
    done = ran[0].python("-c", PROGRAM, "show", "cups", "r001")
    assert json.loads(done.stdout.splitlines()[-1]) == [0, []], done.stderr
