"""pipelines.rounds: what MLflow gets of the attempts of a round, and that nothing is read for nobody."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pipelines.rounds import show_attempts
from pipelines.stages import Scored
from rlft.types import Reward, Rewards, TaskSet
from tests.rlft.attempts import answered, make_task

TASK = make_task("t", "The capital of Peru?", "Lima")
ROLLOUTS = answered(TASK, "Lima", "Cusco", "Rome")
REWARDS = Rewards(
    tuple(
        Reward(each.rollout_id, "t", total, {"right": total}, False, None, None, 0.0)
        for each, total in zip(ROLLOUTS, (1.0, 0.5, 0.0), strict=True)
    ),
    {"right": 1.0},
)


class Stored:
    """An artifact that counts how often it is read."""

    def __init__(self, value):
        self.value, self.read = value, 0

    def load(self):
        self.read += 1
        return self.value


class Tracker:
    run_name, experiment_id, tracking_uri = "named", None, ""

    def __init__(self, *, run_id="r", is_away=False):
        self.run_id, self.is_away, self.texts = run_id, is_away, {}

    def log_text(self, name, text):
        self.texts[name] = text


def show(number=7, *, tracker=None, **settings):
    """The texts that were logged, and how often rollouts were read."""
    tracker, rollouts = tracker or Tracker(), Stored(ROLLOUTS)
    tracking = {"trace_every": 10, "trace_rollouts": 4, "highest_paid": 2, **settings}
    config = SimpleNamespace(tracking=SimpleNamespace(**tracking))
    show_attempts(tracker, Scored(rollouts, Stored(REWARDS)), number, Stored(TaskSet((TASK,), "f")), config)
    return tracker.texts, rollouts.read


def test_the_page_of_a_round_has_as_many_as_the_settings_say():
    texts, read = show()
    [(name, page)] = texts.items()
    assert name == "highest_paid/round_0007.html"
    assert "named, round 7: the 2 highest-paid attempts" in page
    assert "Lima" in page
    assert "Cusco" in page
    assert "Rome" not in page
    assert read == 1


@pytest.mark.parametrize(
    ("tracker", "settings"),
    [
        (Tracker(), {"highest_paid": 0}),
        (Tracker(), {"highest_paid": 0, "trace_every": 0}),
        (Tracker(run_id=None), {}),
        (Tracker(is_away=True), {}),
    ],
)
def test_nothing_is_read_where_nobody_asks_or_takes_it(tracker, settings):
    assert show(tracker=tracker, **settings) == ({}, 0)


def test_a_round_in_which_nothing_was_scored_has_no_page(monkeypatch):
    unscored = tuple(Reward(each.rollout_id, "t", None, {}, False, None, None, 0.0) for each in ROLLOUTS)
    monkeypatch.setattr("tests.pipelines.test_attempts.REWARDS", Rewards(unscored, {}))
    assert show()[0] == {}
