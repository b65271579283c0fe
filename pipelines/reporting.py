"""Writes an evaluation into MLflow: a run for the call, and below it one for each model at each cell."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from mlops.home.folder import find_home
from mlops.registry.names import RUN_NAME_TAG
from mlops.runs.commits import rlft_commit
from mlops.summary.evaluations import EvaluationSummary
from mlops.tracking.evaluation_runs import CellResult, log_cell, open_evaluation
from mlops.tracking.run import Tracker
from pipelines.models import Opened
from pipelines.scenarios import Evaluated
from pipelines.suite_caveats import caveat_metrics
from rlft.config import SuiteConfig


def report_evaluation(
    suite: SuiteConfig,
    opened: Mapping[str, Opened],
    results: Mapping[str, Mapping[str, Evaluated]],
    summary: EvaluationSummary,
    address: str,
    run: Any,
) -> Tracker:
    """Write what the models came to, note in the summary where, and return the run above them, which goes on.

    An MLflow that does not answer is warned of, and its ids are `None`: the summary has all numbers.
    """
    home, root = find_home(), str(run.id)
    own = home.mlflow_artifacts.as_uri() if address == home.tracking_uri else None
    tags = {"zenml.run_id": root, RUN_NAME_TAG: run.name, "rlft.suite": suite.name, "rlft.git_commit": rlft_commit()}
    parent = open_evaluation(
        address, suite.experiment or suite.name, root, run.name, home.missed_file(root), own, tags, suite.model_dump()
    )
    for cell, of_models in results.items():
        for label, each in of_models.items():
            known = opened[label]
            result = CellResult(
                cell=cell,
                model=label,
                facts=summary.models[label],
                model_id=known.version.model_id if known.version else None,
                measures=each.measures,
                tasks=each.tasks.load(),
                rollouts=each.rollouts.load(),
                rewards=each.rewards.load(),
                scores=each.scores,
                caveats=caveat_metrics(label, cell, summary.contamination, summary.forgetting),
            )
            place = home.root / "runs" / f"{root}-{cell}-{label}.missed.json"
            below = log_cell(parent, result, tags, place, suite.max_traces)
            summary.mlflow_runs.setdefault(cell, {})[label] = below
    summary.mlflow_run_id = parent.run_id
    for pair in summary.differences:
        if pair["mean"] is not None:
            name = f"difference/{pair['cell']}/{pair['split']}/{pair['second']}-minus-{pair['first']}"
            ends = {"": pair["mean"], "_low": pair["low"], "_high": pair["high"]}
            parent.log_metrics({f"{name}/{pair['metric']}{end}": value for end, value in ends.items()}, step=0)
    return parent


def end_report(parent: Tracker, summary: EvaluationSummary) -> None:
    """Write the summary of an evaluation into its MLflow run, as its last words: it is to be as the home has it."""
    parent.log_json("evaluation.json", dataclasses.asdict(summary))
    parent.finish()
