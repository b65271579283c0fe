"""What rounds have come to: costs that add up, and which validations count."""

from types import SimpleNamespace
from typing import Any

from pipelines.rounds import Rounds
from rlft.types import EvaluationReport, TrainReport

BEST: Any = SimpleNamespace(name="best")


def test_what_thrown_groups_have_cost_is_added_up():
    counts = [{"gen_batches": 2.0, "resampled_groups": 3.0, "thrown_tokens": 40.0}] * 2
    metrics = [{f"dynamic_sampling/{name}": value for name, value in each.items()} for each in counts]
    rounds = Rounds(BEST, reports=[TrainReport(n, each, {}, 1, 1.0) for n, each in enumerate(metrics)])
    assert rounds.resampling() == {"resampled_groups": 6, "thrown_tokens": 80}


def test_a_validation_that_failed_is_none_of_the_last_ones():
    found = [EvaluationReport("validation", "p", 1, {}, {"accuracy": {"t": score}}) for score in (0.4, 0.4)]
    failed = EvaluationReport("validation", "p", 1, {}, {}, errors={"t": 1})
    rounds = Rounds(BEST, validated=dict(enumerate([found[0], failed])))
    config: Any = SimpleNamespace(evaluation=SimpleNamespace(patience=1), chosen_by="accuracy")
    assert rounds.plateau(config) == ""
    rounds.validated[2] = found[1]
    assert "+0.000" in rounds.plateau(config)
