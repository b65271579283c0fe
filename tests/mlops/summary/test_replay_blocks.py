"""What a replay came to, in sentences that follow from its numbers."""

from __future__ import annotations

import dataclasses
import json

from mlops.summary.replays import RescoreSummary, RetrainSummary, replay_blocks
from rlft.rewards.rescored import RescoreReport
from rlft.texts.blocks import Caution, Headline

SOURCE = {"name": "again", "source": "first", "source_run_id": "1", "pipeline_run_id": "2"}


def told(summary) -> list:
    return list(replay_blocks(json.loads(summary.as_text())))


def retraining(mean: float, low: float, high: float) -> RetrainSummary:
    difference = {"before": 0.5, "after": 0.5 + mean, "mean": mean, "low": low, "high": high, "tasks": 40}
    keys = ("round", "on_policy", "effective_sample_ratio", "logp_difference", "mean_weight", "capped_ratio")
    values = ((3, True, 1.0, 0.0, 1.0, 0.0), (4, False, 0.25, 0.1, 0.0123, 0.3), (5, False, None, None, None, None))
    rows = [dict(zip(keys, each, strict=True)) for each in values]
    more = {"from_round": 3, "rounds": 3, "best_round": 6, "off_policy": rows, "difference": difference}
    return RetrainSummary(kind="retrain", status="finished", notes=["no exploration"], **more, **SOURCE)


def test_which_of_two_ways_of_training_is_better():
    verdicts = {
        (0.1, 0.02, 0.2): "the model that was trained again is better",
        (-0.1, -0.2, -0.02): "the model of first is better",
        (0.1, -0.02, 0.2): "no difference is shown",
    }
    for numbers, verdict in verdicts.items():
        (headline, *_) = told(retraining(*numbers))
        assert isinstance(headline, Headline)
        assert headline.text.endswith(verdict)
    first = told(retraining(0.1, 0.02, 0.2))[0].text
    assert first.startswith("accuracy 0.600 against 0.500 of first on test: +0.100 [+0.020, +0.200]")


def rescoring(**changes) -> RescoreSummary:
    pairs = {"kept": 5, "reversed": 2, "tied": 1, "parted": 0}
    means = {"reward": (0.5, 6)}
    report = RescoreReport(6, means, {"reward": (1.5, 5), "rewards/new": (2.0, 5)}, 0, 1, 3, pairs, 2, 3, 2)
    total = dataclasses.asdict(report)
    return RescoreSummary(kind="rescore", status="finished", total=total, **changes, **SOURCE)


def test_a_reward_that_changes_no_order_or_breaks_ties_alone_says_so():
    def headline(reordered, **pairs):
        found = rescoring()
        found.total = found.total | {"reordered": reordered, "pairs": {"kept": 5, "reversed": 0, "tied": 0} | pairs}
        return told(found)[0].text

    assert headline(0, parted=0) == "All groups of attempts are in the same order under the new reward"
    only_ties = (
        "No two attempts change places under the new reward; in 1 of 3 groups of attempts those that are equal are"
    )
    assert headline(1, parted=1).startswith(only_ties)
    assert headline(1, parted=1, reversed=1) == "1 of 3 groups of attempts are in another order under the new reward"


def test_what_another_reward_changes():
    headline, audit, changes, errors, table = told(rescoring(audit={"passed": True, "findings": []}))
    assert headline == Headline("2 of 3 groups of attempts are in another order under the new reward")
    assert audit == "The reward audit would pass."
    assert (
        "Of 8 pairs of attempts at one task 2 are the other way round, 1 are equal now and 0 are no longer" in changes
    )
    assert "2 of 3 groups differ in reward and so teach; under the reward of the run it is 3" in changes
    assert errors == Caution("1 attempts have no score; under the reward of the run it is 0.")
    assert table.rows == (("reward", "0.500", "1.500"), ("rewards/new", "", "2.000"))


def test_an_audit_that_fails_and_one_that_is_off():
    failed = told(rescoring(audit={"passed": False, "findings": ["empty is paid"]}))
    assert Caution("empty is paid") in failed
    assert any(isinstance(each, str) and "nobody knows whether it would pass" in each for each in told(rescoring()))
