"""The curves of a sweep: the means of its runs' validations over the rounds, in the MLflow run above them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from mlops.record.sweep import OVER_SEEDS, SweptRun, named_ends
from mlops.tracking.run import Tracker
from rlft.sweep import SEED, mean_over_runs, short_names

logger = logging.getLogger(__name__)
Curve = Mapping[int, float]
"""{rounds before: value}."""


def log_mean_curves(tracker: Tracker, runs: Sequence[SweptRun]) -> None:
    """Write the mean over the runs of each setting of what they reached in validation, with its interval over seeds.

    The curves have the names of those of a run (`eval/validation/accuracy`), and where settings are swept that of the
    setting behind it. A step at which one of the runs was not validated is left out. If MLflow does not answer there
    are no curves, which a warning says.
    """
    client = MlflowClient(tracker.tracking_uri)
    by_setting: dict[tuple[tuple[str, str], ...], list[SweptRun]] = {}
    for run in runs:
        by_setting.setdefault(tuple((k, v) for k, v in run.changes.items() if k != SEED), []).append(run)
    labels = short_names([dict(setting) for setting in by_setting])
    try:
        for label, found in zip(labels, by_setting.values(), strict=True):
            for metric, curves in _curves(client, found).items():
                for step, values in mean_curve(metric, curves, f"/{label.replace('=', ' ')}" if label else ""):
                    tracker.log_metrics(values, step=step)
    except MlflowException as cause:
        logger.warning("the curves of the sweep's runs could not be read: %s", cause.message)


def mean_curve(name: str, curves: Sequence[Curve], end: str = "") -> Iterator[tuple[int, dict[str, float]]]:
    """Yield each step that all curves have, with the mean there and the ends of its 95 % interval, if there is one.

    `end` is what comes after the names. The ends are over seeds, and their names say so.
    """
    for step in sorted(set.intersection(*(set(curve) for curve in curves)) if curves else ()):
        mean = mean_over_runs([curve[step] for curve in curves])
        yield step, named_ends(name, mean, OVER_SEEDS, end)


def _curves(client: MlflowClient, runs: Sequence[SweptRun]) -> dict[str, list[Curve]]:
    """Return {metric: the curve of each run that was validated}."""
    found: dict[str, list[Curve]] = {}
    for run in runs:
        if run.score is not None and run.summary is not None and run.summary.mlflow_run_id is not None:
            name = f"eval/validation/{run.score.metric}"
            points = client.get_metric_history(run.summary.mlflow_run_id, name)
            if points:
                found.setdefault(name, []).append({point.step: point.value for point in points})
    return found
