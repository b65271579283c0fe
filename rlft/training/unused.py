"""Reports a round whose rollouts were sampled ahead (`training.lag`), and not trained on as training had ended."""

from __future__ import annotations

from rlft.metrics import round_metrics
from rlft.outcome import Fate
from rlft.training.ledger import failed_at
from rlft.types import Rewards, Rollouts, TrainReport

TRAINING_ENDED = Fate("filtered", "training_ended")


def unused_report(rollouts: Rollouts, rewards: Rewards, *, round: int, age: int) -> TrainReport:
    """Return a report without updates: those that failed are `errored`, all others `filtered:training_ended`.

    Its metrics are those of sampling and scoring, which have cost what they cost. Raises ValueError if the rewards
    belong to other rollouts.
    """
    metrics = round_metrics(rollouts, rewards)
    places = {
        rollout.rollout_id: failed_at(rollout, reward, rewards)
        for rollout, reward in zip(rollouts, rewards, strict=True)
    }
    fates = {key: TRAINING_ENDED if place is None else Fate("errored", place) for key, place in places.items()}
    clocks = {"perf/rollout_seconds": rollouts.seconds, "perf/score_seconds": rewards.seconds}
    return TrainReport(
        round=round,
        metrics=metrics | clocks,
        fates={key: str(fate) for key, fate in fates.items()},
        updates=0,
        seconds=0.0,
        age=age,
    )
