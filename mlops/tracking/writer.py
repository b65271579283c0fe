"""Writes what a run tracks into MLflow, so that writing it twice leaves one of each."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

from mlflow import MlflowClient
from mlflow.entities import DatasetInput, Metric, Param, RunTag
from mlflow.exceptions import MlflowException

from mlops.tracking.missed import Entry
from mlops.tracking.values import dataset_input

logger = logging.getLogger(__name__)

PARAMS_AT_ONCE, METRICS_AT_ONCE = 100, 1000  # as many as one call of MLflow's log_batch takes


class RunWriter:
    """Writes entries into one MLflow run. A method raises what MLflow, a driver or the network throws.

    A resumed pipeline writes its rounds again: parameters and values that the run has stay as they are. `is_new` says
    that the run was made just now, so that no store has to be asked what it has.
    """

    def __init__(self, client: MlflowClient, run_id: str, *, is_new: bool) -> None:
        self._client, self._run_id, self._is_new = client, run_id, is_new
        self._steps: dict[str, set[int]] = {}  # of each metric the steps at which the run has a value

    def write(self, entry: Entry) -> None:
        """Write one entry; `kind` names what it is, the other keys are those that `Tracker` gave it."""
        match entry["kind"]:
            case "params":
                self._write_params(entry["values"])
            case "metrics":
                values = [(name, entry["step"], value) for name, value in entry["values"].items()]
                self._write_values(values, entry["time_ms"])
            case "result":
                values = [Metric(name, value, entry["time_ms"], 0) for name, value in entry["values"].items()]
                self._client.log_batch(self._run_id, metrics=values)
            case "curves":
                self._write_curves(entry["values"], entry["time_ms"])
            case "tags":
                self._client.log_batch(self._run_id, tags=[RunTag(k, v) for k, v in entry["values"].items()])
            case "tasks":
                self._write_tasks([dataset_input(fields) for fields in entry["datasets"]])
            case "text":
                self._client.log_text(self._run_id, entry["text"], entry["name"])
            case "end":
                self._client.set_terminated(self._run_id, entry["status"])
            case kind:
                raise ValueError(f"unknown entry {kind!r} in the tracker's backlog")

    def _write_tasks(self, datasets: Sequence[DatasetInput]) -> None:
        try:
            self._client.log_inputs(self._run_id, datasets=datasets)
        except MlflowException as cause:
            # MLflow looks whether a data set is there and then inserts it, and another run may do so in between.
            if "IntegrityError" not in str(cause):
                raise
            self._client.log_inputs(self._run_id, datasets=datasets)

    def _write_params(self, values: dict[str, str]) -> None:
        # MLflow refuses to change a parameter, and one changed value would fail the whole batch.
        there = self._client.get_run(self._run_id).data.params
        changed = sorted(name for name, value in values.items() if there.get(name, value) != value)
        if changed:
            logger.warning(
                "MLflow shows the parameters of the run's start, as it changes none: %s has another value from here on",
                ", ".join(changed),
            )
        new = [Param(name, value) for name, value in values.items() if name not in there]
        for start in range(0, len(new), PARAMS_AT_ONCE):
            self._client.log_batch(self._run_id, params=new[start : start + PARAMS_AT_ONCE])

    def _write_curves(self, curves: dict[str, list[float]], time_ms: int) -> None:
        values = [(n, step, v) for n, curve in curves.items() for step, v in enumerate(curve, 1) if math.isfinite(v)]
        self._write_values(values, time_ms)

    def _write_values(self, values: Sequence[tuple[str, int, float]], time_ms: int) -> None:
        """Write those (name, step, value) of which the run has none yet."""
        names = {name for name, _, _ in values}
        for name in names:
            if name not in self._steps:
                history = [] if self._is_new else self._client.get_metric_history(self._run_id, name)
                self._steps[name] = {metric.step for metric in history}
        new = [Metric(name, value, time_ms, step) for name, step, value in values if step not in self._steps[name]]
        try:
            for start in range(0, len(new), METRICS_AT_ONCE):
                self._client.log_batch(self._run_id, metrics=new[start : start + METRICS_AT_ONCE])
        except Exception:
            # A call that timed out may have been carried out: ask the store before the next attempt.
            self._is_new = False
            for name in names:
                self._steps.pop(name, None)
            raise
        for metric in new:
            self._steps[metric.key].add(metric.step)
