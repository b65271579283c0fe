"""What the page of a run takes from its summary."""

from mlops.runs.report import _code, _stages
from mlops.summary.summary import Seconds

# 20 + 3 + 100 + 12 leave 5 of the run, 30 + 10 + 40 leave 20 of the rounds.
RUN = Seconds(setup=20, warm_start=3, rollout=30, score=10, train=40, rounds=100, evaluate=12, total=140)


def test_the_parts_of_a_run_add_up_to_it():
    stages = _stages(RUN)
    assert (stages["rest of the rounds"], stages["rest of the run"]) == (20, 5)
    assert sum(stages.values()) == RUN.total


def test_seconds_of_another_run_leave_nothing_below_zero():
    stages = _stages(RUN.model_copy(update={"rollout": 500.0, "warm_start": 500.0}))
    assert (stages["rest of the rounds"], stages["rest of the run"]) == (0, 0)


def test_the_code_that_a_run_noted_is_named():
    noted = {"commits": {"rlft": "1a2b"}, "packages": {"torch": "2.1", "peft": "0.1"}}
    assert _code(noted) == {"commit of rlft": "rlft 1a2b", "packages": "torch 2.1, peft 0.1"}
    assert _code({}) == {}
