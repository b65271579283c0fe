"""A model of a folder is compared with itself, and with other models, with examples in the prompt."""

from __future__ import annotations

import json
import math
import shutil
import signal
import threading

import pytest

from tests.e2e.conftest import TINY
from tests.e2e.test_secrets import contents
from tests.factories import save_base
from tests.rlft.engines.chat_servers import ChatServer, completion

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow, pytest.mark.long]


# A round of 48 tasks, whose FLOPs pay for a validation with examples even where few of its rollouts are trained on.
CHANGES = {"policy": {"model": "model"}, "warm_start": None, "training.rounds": 1, "training.tasks_per_round": 48}


@pytest.fixture(scope="module")
def prompted(finished, make_home):
    """A run from what `finished` trained, whose context is made four times as long: its positions are rotations."""
    (policy,) = (finished[0].folder / ".rlft" / "mlflow-artifacts").rglob("artifacts/policy")
    home = make_home("prompted")
    model = home.folder / "model"
    for part in ("model", "tokenizer"):
        shutil.copytree(policy / part, model, dirs_exist_ok=True)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 128}))
    other = save_base(home.folder / "saved", seed=1, characters="0123456789,= \n", max_position_embeddings=256)
    other.rename(home.folder / "other")
    result = home.rlft("run", str(TINY), *options(CHANGES | {"controls": ["few_shot", {"model": "other"}]}))
    assert result.code == 0, result.output
    return home, result.summary


def options(changes):
    """The options of the command line that change a config so."""
    return [part for key, value in changes.items() for part in ("--set", f"{key}={json.dumps(value)}")]


@pytest.mark.parametrize("name", ["few_shot", "model"])
def test_the_chosen_prompt_is_an_arm_and_what_was_tried_is_kept(prompted, name):
    home, summary = prompted
    assert set(summary["controls"]) == {"few_shot", "model", "constant"}
    assert {"accuracy", "gate/accuracy", "off_distribution/accuracy"} <= set(summary["controls"][name])
    (file,) = (home.folder / ".rlft" / "mlflow-artifacts").rglob(f"controls/{name}.json")
    report = json.loads(file.read_text())
    assert 0 < report["spent"] <= report["budget"]
    assert any(trial["examples"] and trial["validation"] is not None for trial in report["trials"])
    assert report["chosen"]["validation"] == max(trial["validation"] or 0 for trial in report["trials"])
    (base, rows), (control, same) = home.query(f"""
run = client.get_pipeline_run("{summary["pipeline_run_id"]}")
steps = [run.steps[f"generate_rollouts_{{name}}"] for name in ("base", "{name}_control")]
found = [step.outputs["rollouts"][0].load() for step in steps]
print(json.dumps([[sum(row.prompt_length for row in each.rows), len(each.rows)] for each in found]))
""")
    assert rows == same
    shown = report["examples"]["shown"] if report["examples"] else []
    assert (control > base) == bool(shown)
    if report["chosen"]["form"] != "text":  # a character is a token, and so is the newline after a message
        texts = [message["content"] for one in shown for message in (*one["prompt"], *one["turns"])]
        assert control - base == rows * sum(len(text) + 1 for text in texts)


def test_a_search_for_the_prompt_that_was_killed_is_made_again_and_chooses_the_same(prompted, make_home):
    home = make_home("searching")
    for model in ("model", "other"):
        shutil.copytree(prompted[0].folder / model, home.folder / model)
    wanted = options(CHANGES | {"controls": ["few_shot", {"model": "other"}]})
    killed = home.rlft(
        "run", str(TINY), *wanted, "--name", "killed", kill_at="rlft.evaluation.searches.prompts:is_better:2"
    )
    assert killed.code == -signal.SIGKILL, killed.output
    resumed = home.rlft("resume", "killed")
    assert resumed.code == 0, resumed.output
    steps = home.steps(resumed.summary["pipeline_run_id"])
    assert {steps[name]["status"] for name in steps if name.startswith("train_grpo")} == {"skipped"}
    for part in ("controls", "difference_controls", "final"):
        assert resumed.summary[part] == prompted[1][part]


def test_another_model_is_an_arm_that_is_called_by_its_name(prompted):
    home, summary = prompted
    assert summary["control_model"] == "other"
    assert set(summary["controls"]["model"]) == set(summary["controls"]["few_shot"])
    assert summary["difference_controls"]["model"]["tasks"] == 12
    (file,) = (home.folder / ".rlft" / "mlflow-artifacts").rglob("controls/model.json")
    assert json.loads(file.read_text())["metric"] == "accuracy"
    steps = home.steps(summary["pipeline_run_id"])
    policies = [steps[name]["weights"] for name in ("initialize_policy", "initialize_policy_model_control")]
    assert len(set(policies)) == 2


KEY = "sk-Kq99-kept-secret-0123456789"


def divisor_of_small_ones(body, number):
    """The greatest common divisor of numbers with a small sum, after at least two examples; else another number."""
    numbers = [int(word) for word in body["messages"][-1]["content"].rpartition("\n")[2].removesuffix("=").split(",")]
    found = math.gcd(*numbers)
    right = sum(numbers) < 24 and len(body["messages"]) > 4
    return completion(str(found if right else found + 1), usage={"prompt_tokens": 20, "completion_tokens": 2})


@pytest.fixture(scope="module")
def asked(prompted):
    """The same run in the same home with a model behind an address; what it shares comes from the cache."""
    home, _ = prompted
    with ChatServer(divisor_of_small_ones) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RLFT_TEST_KEY", KEY)
        control = {"model": "small", "endpoint": server.url, "api_key": "env:RLFT_TEST_KEY", "attempts": 2}
        wanted = [control, control | {"concurrency": 2}, control | {"endpoint": f"{server.url}1"}]
        result, again, refused = (home.rlft("run", str(TINY), *options(CHANGES | {"controls": [x]})) for x in wanted)
        assert (result.code, again.code) == (0, 0), result.output + again.output
    return home, result, again, refused, server


def test_a_model_behind_an_address_is_an_arm_like_another_one(asked):
    home, result, _, _, server = asked
    summary = result.summary
    assert set(summary["controls"]) == {"model", "constant"}
    assert summary["control_model"] == "small"
    assert {"accuracy", "gate/accuracy", "off_distribution/accuracy"} <= set(summary["controls"]["model"])
    assert 0 < summary["controls"]["model"]["accuracy"] < 1
    assert summary["difference_controls"]["model"]["tasks"] == 12
    rows = home.query(f"""
run = client.get_pipeline_run("{summary["pipeline_run_id"]}")
rows = run.steps["generate_rollouts_model_control"].outputs["rollouts"][0].load().rows
print(json.dumps([[row.policy, len(row.token_ids), row.turns, row.error is None] for row in rows]))
""")
    assert rows == [[f"small at {server.url}", 0, 1, True]] * 36


def test_its_prompt_is_chosen_from_the_examples_and_its_tokens_are_counted(asked):
    home, result, _, _, _ = asked
    files = [
        json.loads(f.read_text()) for f in (home.folder / ".rlft" / "mlflow-artifacts").rglob("controls/model.json")
    ]
    report = next(found for found in files if found["budget"] is None)
    assert (report["chosen"]["examples"], report["chosen"]["form"], report["spent"]) == (4, "turns", None)
    # Seven prompts for each of twelve tasks.
    assert (report["prompt_tokens"], report["completion_tokens"]) == (7 * 12 * 20, 7 * 12 * 2)
    cost = result.summary["control_costs"]["model"]
    assert (cost["flops"], cost["budget"], cost["prompt_tokens"], cost["completion_tokens"]) == (None, None, 1680, 168)
    assert "its FLOPs are not known; its endpoint reports 1,680 tokens read" in " ".join(result.output.split())
    metrics = home.query(f"""
print(json.dumps(mlflow_client.get_run("{result.summary["mlflow_run_id"]}").data.metrics))
""")
    named = {
        name: value for name, value in metrics.items() if name.startswith("model_control/") and "seconds" not in name
    }
    assert named == {"model_control/prompt_tokens": 1680, "model_control/completion_tokens": 168}


def test_what_was_asked_once_is_not_paid_for_again(asked):
    home, result, again, _, server = asked
    # A request of each of the three runs shows whether the endpoint works. The first one goes on with twelve tasks
    # under seven prompts, and the 36 tasks of the final splits.
    assert len(server.bodies) == 3 + 7 * 12 + 36
    steps = home.steps(again.summary["pipeline_run_id"])
    assert {steps[name]["status"] for name in ("choose_prompt_model", "generate_rollouts_model_control")} == {"cached"}
    assert again.summary["controls"]["model"] == result.summary["controls"]["model"]


def test_a_wrong_address_stops_the_run_before_anything_is_trained(asked):
    _, _, _, refused, server = asked
    assert refused.code != 0
    assert f"small cannot be asked: {server.url}1 answers 404" in refused.output
    assert refused.summary["status"] == "failed"
    assert refused.summary["rounds"] == 0


def test_its_key_is_sent_with_every_request_and_is_in_no_file_that_a_run_leaves(asked):
    home, result, again, refused, server = asked
    assert {headers["Authorization"] for headers in server.headers if "Authorization" in headers} == {f"Bearer {KEY}"}
    assert KEY not in result.output + again.output + refused.output
    assert [name for name, content in contents(home.folder).items() if KEY.encode() in content] == []


def test_its_rollouts_are_shown(asked):
    home, result, _, _, _ = asked
    listed = home.rlft("show", result.summary["pipeline_run_id"], "model_control")
    assert (listed.code, "36 rollouts of model_control" in listed.output) == (0, True)
    one = home.rlft("show", result.summary["pipeline_run_id"], "model_control", "0")
    assert (one.code, "not known" in one.output) == (0, True)


def test_an_endpoint_that_goes_away_stops_the_run_and_a_resume_asks_it_again(make_home, prompted):
    home = make_home("away")
    shutil.copytree(prompted[0].folder / "model", home.folder / "model")
    away = threading.Event()

    def answer(body, number):
        if number > 40 and not away.is_set():  # in the search for its prompt, long after the first answer
            return 503
        return "2"

    with ChatServer(answer) as server:
        control = {"model": "small", "endpoint": server.url, "attempts": 1}
        stopped = home.rlft("run", str(TINY), *options(CHANGES | {"controls": [control]}))
        assert (stopped.code, stopped.summary["status"]) == (2, "failed"), stopped.output
        assert "attempts without an answer; the last time" in " ".join(stopped.output.split())
        away.set()
        resumed = home.rlft("resume", stopped.summary["pipeline_run_id"])
    assert resumed.code == 0, resumed.output
    assert resumed.summary["difference_controls"]["model"]["tasks"] == 12  # all of `test` have a score
    steps = home.steps(resumed.summary["pipeline_run_id"])
    assert {steps[name]["status"] for name in steps if name.startswith("train_grpo")} == {"skipped"}
    assert steps["choose_prompt_model"]["status"] == "completed"
