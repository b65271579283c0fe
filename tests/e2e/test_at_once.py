"""Two commands at once in one home: runs that ask one gate, and a removal beside a run that is resumed."""

from __future__ import annotations

import json
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.conftest import Home

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]


@pytest.fixture(scope="module")
def two(make_home, short_config) -> Home:
    """Two runs without a name that train differently and are judged on the same gate at the same time."""
    home = make_home("two")
    configs = {name: home.folder / f"{name}.yaml" for name in ("slow", "fast")}
    short = short_config.read_text()
    configs["slow"].write_text(short)
    configs["fast"].write_text(short.replace("learning_rate: 1e-3", "learning_rate: 2e-3"))
    with ThreadPoolExecutor() as pool:
        runs = [
            pool.submit(home.module, "cli", "run", str(config), "--summary", f"{name}.json")
            for name, config in configs.items()
        ]
    for run in runs:
        assert run.result().returncode == 0, run.result().stdout + run.result().stderr
    return home


def test_each_decision_at_a_gate_is_counted(two):
    tags = two.query('print(json.dumps(mlflow_client.get_registered_model("tiny").tags))')
    looks = sorted(json.loads(file.read_text())["promotion"]["look"] for file in two.folder.glob("*.json"))
    noted = sorted(int(kept.split("/")[0]) for name, kept in tags.items() if name.startswith("mlflow.rlft.look."))
    assert noted == looks
    # Each is noted before it is counted, so at least one of the two sees the other.
    assert noted in ([1, 2], [2, 2])


def test_the_newest_version_is_the_challenger(two):
    versions, aliases = two.query("""
found = mlflow_client.search_model_versions("name = 'tiny'")
print(json.dumps([{v.version: v.run_id for v in found}, mlflow_client.get_registered_model("tiny").aliases]))
""")
    assert len(set(versions.values())) == 2
    assert {name: str(number) for name, number in aliases.items()} == {"challenger": max(versions, key=int)}


def test_runs_without_a_name_that_begin_at_once_differ_in_their_last_digits(two):
    first, second = two.query("print(json.dumps([run.name for run in client.list_pipeline_runs()]))")
    assert first != second
    assert all(re.fullmatch(r"tiny-\d{4}-\d\d-\d\d-[0-9a-f]{4}", name) for name in (first, second))
    shown = two.module("cli", "show", first, "0")
    assert shown.returncode == 0, shown.stderr


@pytest.fixture(scope="module")
def killed(make_home, short_config) -> Home:
    """A run that was killed when it was to register its policy."""
    home = make_home("prunable")
    kill = "steps.promotion:register_policy_version:1"
    done = home.rlft("run", str(short_config), "--name", "third", kill_at=kill)
    assert done.code == -signal.SIGKILL, done.output
    return home


@pytest.mark.parametrize("lead", [-1.0, 0.0, 3.0], ids=lambda lead: f"prune {lead:+.0f} s")
def test_a_run_is_removed_or_resumed_and_never_both(killed, tmp_path, lead):
    home = killed.copy(tmp_path)
    with ThreadPoolExecutor() as pool:
        first = ("prune", "--keep-last", "0", "--failed", "--yes")
        commands = [first, ("resume", "third")] if lead < 0 else [("resume", "third"), first]
        begun = pool.submit(home.module, "cli", *commands[0])
        time.sleep(abs(lead))
        later = pool.submit(home.module, "cli", *commands[1])
    done = {command[0]: run.result() for command, run in zip(commands, (begun, later), strict=True)}
    said = {name: " ".join((each.stdout + each.stderr).split()) for name, each in done.items()}
    assert "Traceback" not in "".join(said.values())
    assert done["prune"].returncode == 0, said["prune"]
    left = home.query("print(json.dumps([run.name for run in client.list_pipeline_runs()]))")
    if done["resume"].returncode == 0:
        assert "third stays" in said["prune"]
        assert len(left) == 2
    else:
        assert done["resume"].returncode == 2, said["resume"]
        assert "third" in said["resume"]
        assert "1 run removed" in said["prune"]
        assert left == []
    assert not (home.folder / ".rlft" / "removing.json").exists()
