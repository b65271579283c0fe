"""Validates a policy between rounds: the curve, the best policy so far, and a warning where answers collapse."""

from __future__ import annotations

import logging
import time

from mlops.ids import validation_name
from mlops.tracking.run import Tracker
from pipelines.rounds_done import Rounds
from pipelines.stages import Artifact, Stages
from rlft.budget import Account
from rlft.evaluation import curve_points
from rlft.types import Evaluation, EvaluationReport
from rlft.variety import collapse, named

logger = logging.getLogger(__name__)


def validate_round(
    stages: Stages, tasks: Artifact, tracker: Tracker, account: Account, rounds: Rounds, policy: Artifact, number: int
) -> None:
    """Evaluate a policy that was trained for `number` rounds, which may be the best so far."""
    evaluation = validate(stages, tasks, policy, number, tracker, account)
    rounds.note_validation(policy, number, evaluation, stages.config.chosen_by)
    assert rounds.start_report is not None
    _warn_of_collapse(evaluation.splits["validation"], rounds.start_report, number)


def validate(
    stages: Stages, tasks: Artifact, policy: Artifact, number: int, tracker: Tracker, account: Account
) -> Evaluation:
    """Evaluate a policy on `validation` after `number` rounds, and log its metrics."""
    started = time.perf_counter()
    evaluation: Evaluation = stages.evaluate(policy, tasks, ["validation"], validation_name(number)).load()
    report = evaluation.splits["validation"]
    metric = stages.config.evaluation.metric
    read = {f"eval/validation/{name}": value for name, value in evaluation.read.items()}
    tracker.log_metrics(curve_points(report, metric) | read, step=number)
    if metric in report.metrics:
        logger.info("validation after round %d: %s %.3f", number, metric, report.metrics[metric].mean)
    else:
        logger.warning(
            "validation after round %d: all %d rollouts failed, so it does not count", number, report.errored
        )
    account.add_validation(time.perf_counter() - started)
    return evaluation


def _warn_of_collapse(report: EvaluationReport, start: EvaluationReport, number: int) -> None:
    if collapsed := collapse(report, start):
        said = named(report.frequent)
        logger.warning("validation after round %d: %s; most often it says %s", number, collapsed, said)
