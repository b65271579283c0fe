"""An environment's code may change the working directory: for itself, and not for what comes after it."""

from __future__ import annotations

import os
import sys

import pytest

from rlft.calls import make_call
from rlft.config import HarnessConfig
from rlft.config.workers import Workers
from rlft.environments.contract.loading import load_environment
from rlft.environments.workers.folders import staying
from rlft.harness.scripted import Part, as_script, play_scripts
from rlft.rewards.scoring import score_rollouts
from rlft.types import Rollouts
from tests.factories import make_task

CODE = """
import os
import rlft

{at_import}


class Env(rlft.BaseEnv):
    def __init__(self):
        {in_constructor}

    @rlft.tool
    def look(self) -> str:
        '''Say where the code is.'''
        return os.getcwd()

    def compute_reward(self, completion, ground_truth):
        {in_reward}
        return {{"here": float(open("word.txt").read() == "the word")}}
"""
GO = "os.chdir({!r})"


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Where the command begins, which holds env.py, and where the environment's data is."""
    (start := tmp_path / "start").mkdir()
    (data := tmp_path / "data").mkdir()
    (data / "word.txt").write_text("the word")
    monkeypatch.chdir(start)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return start, data


def rewards(environment, isolation):
    """Play a conversation with a call of the tool, and score it; returns what the tool said, and the score."""
    task = make_task("t0")
    script = as_script(
        [
            {"role": "assistant", "content": "", "tool_calls": [make_call("look", {}, "1")]},
            {"role": "assistant", "content": ""},
        ]
    )
    rows = play_scripts([Part("r0", task, script)], environment, HarnessConfig(isolation=isolation))
    found = score_rollouts(
        Rollouts(tuple(rows)),
        {"t0": task},
        environment,
        weights={},
        full=None,
        timeout_seconds=30,
        workers=Workers(isolation=isolation),
    )
    [heard] = [message["content"] for message in rows[0].messages if message["role"] == "tool"]
    return heard, found.rows[0]


@pytest.mark.parametrize("isolation", ["thread", "process"])
@pytest.mark.parametrize("place", ["at_import", "in_constructor"])
def test_where_it_went_when_it_was_made_its_code_goes_on_and_a_run_does_not(places, place, isolation):
    start, data = places
    parts = {"at_import": "", "in_constructor": "pass", "in_reward": "pass", place: GO.format(str(data))}
    (start / "env.py").write_text(CODE.format(**parts))
    for _ in range(2):  # the second time it is imported already
        environment = load_environment("env.py:Env", {})
        assert os.getcwd() == str(start)
        heard, row = rewards(environment, isolation)
        assert heard == str(data)
        assert (row.total, row.error) == (1.0, None)
        assert os.getcwd() == str(start)


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_reward_that_goes_elsewhere_leaves_the_paths_of_a_run_alone(places, isolation):
    start, data = places
    parts = {"at_import": "", "in_constructor": "pass", "in_reward": GO.format(str(data))}
    (start / "env.py").write_text(CODE.format(**parts))
    environment = load_environment("env.py:Env", {})
    assert rewards(environment, isolation)[1].total == 1.0
    assert os.getcwd() == str(start)
    assert load_environment("env.py:Env", {}) is not environment  # as the next step does


def test_a_folder_that_is_gone_is_left(places):
    start, data = places
    with staying():
        os.chdir(data)
        (data / "word.txt").unlink()
        data.rmdir()
    assert os.getcwd() == str(start)
