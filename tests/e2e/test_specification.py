"""Runs whose reward is a specification in the config, and which name no environment."""

from __future__ import annotations

import copy

import pytest
import yaml

from tests.e2e.conftest import TINY, Home

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]

SPEC = {
    "says": "The greatest common divisor, and nothing else.",
    "criteria": {
        "right": {"says": "The number is right.", "grader": {"type": "number"}, "essential": True},
        "short": {
            "says": "It has at most two digits.",
            "grader": {"type": "length", "measured": "characters", "at_most": 2},
            "weight": 0.1,
        },
    },
    "cases": [{"attempt": "4", "item": {"answer": "4"}, "at_least": 1.1, "reason": "The number alone is full."}],
}
LOOK = """
from mlops.ids import REWARDS
from mlops.home.folder import find_home
from mlops.runs.store import RunStore
from mlops.runs.store import stored_config

run = RunStore(find_home()).called("{name}")
config = stored_config(run.config, "{name}")
rows = [[row.total, row.parts] for row in run.output(REWARDS, "r000")]
print(json.dumps({{"environment": config.environment.name, "rows": rows}}))
"""


def run(home: Home, name: str, specification: dict) -> dict:
    """The summary of a run of one round."""
    content = yaml.safe_load(TINY.read_text()) | {"reward": {"spec": specification}, "controls": []}
    del content["environment"]
    (home.folder / f"{name}.yaml").write_text(yaml.safe_dump(content))
    done = home.rlft("run", f"{name}.yaml", "--name", name, "--set", "training.rounds=1")
    assert done.code == 0, done.output
    assert done.summary is not None
    return done.summary


@pytest.fixture(scope="module")
def home(make_home) -> Home:
    return make_home("specified")


@pytest.fixture(scope="module")
def first(home) -> dict:
    return run(home, "first", SPEC)


def test_each_criterion_is_a_part_and_the_parts_are_the_total(home, first):
    found = home.query(LOOK.format(name="first"))
    assert found["environment"] == "rlft.environments.specified:Plain"
    assert len(found["rows"]) == 32
    for total, parts in found["rows"]:
        assert set(parts) == {"right", "short", "essentials"}
        assert parts["essentials"] == parts["right"]
        assert parts["short"] <= parts["right"]  # what is wrong is not paid for being short
        assert total == pytest.approx(parts["right"] + 0.1 * parts["short"])
    assert {parts["right"] for _, parts in found["rows"]} == {0.0, 1.0}
    assert 0 < first["final"]["rewards/right"] <= 1


def test_after_an_edit_attempts_are_scored_again_and_not_sampled_again(home, first):
    (home.folder / "mine.py").write_text("def digits(value, item):\n    return float(str(value).isdigit())\n")
    other = copy.deepcopy(SPEC)
    other["criteria"]["short"]["weight"] = 0.2
    grader = {"type": "function", "function": "mine.py:digits"}
    other["criteria"]["digits"] = {"says": "It is a number.", "grader": grader, "weight": 0.0}
    steps = home.steps(run(home, "second", other)["pipeline_run_id"])
    assert steps["generate_rollouts_r000"]["status"] == "cached"
    assert steps["score_rewards_r000"]["status"] == "completed"
    for total, parts in home.query(LOOK.format(name="second"))["rows"]:
        assert total == pytest.approx(parts["right"] + 0.2 * parts["short"])
        assert parts["digits"] >= parts["right"]  # by the user's own function
