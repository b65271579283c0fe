"""The pipeline `evaluate`: attempts a suite with several models, and compares them task by task."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

from zenml import log_metadata, pipeline

from mlops.home.folder import find_home
from mlops.registry.names import RUN_NAME_TAG
from mlops.runs.finding import folder_of
from mlops.runs.identity import rlft_commit
from mlops.runs.runtime import start_runtime, stop_runtime
from mlops.summary.file import EvaluationSummary
from mlops.tracking.address import tracking_address
from mlops.tracking.evaluation import KIND_TAG, CellResult, log_cell
from mlops.tracking.run import MISSED_FILE, Tracker
from pipelines import models as opening
from pipelines import scenarios
from pipelines.models import Opened, open_models
from pipelines.replay import begin, keeping
from pipelines.scenarios import Evaluated, check_slices, evaluate_scenarios, ingest_suite
from pipelines.showing import watched
from rlft.config import SuiteConfig
from rlft.evaluation.model_names import parse_model
from rlft.evaluation.suites import compare_models
from rlft.types import add_judging

STEPS = [*scenarios.STEPS, *opening.STEPS]


@pipeline(dynamic=True, depends_on=STEPS, on_init=start_runtime, on_cleanup=stop_runtime)
def evaluate(suite: dict[str, Any], models: list[str], tracking_uri: str, api_key: str | None = None) -> None:
    """Evaluate models on a suite.

    `suite` is a `rlft.config.SuiteConfig` as a mapping, `models` are named as in `model_names`, `tracking_uri`
    is an address of MLflow or `home`, and `api_key` is `env:NAME` for the key of endpoints.
    """
    settings = SuiteConfig.model_validate(suite)
    display, run = begin()
    address, started = tracking_address(tracking_uri), time.perf_counter()
    summary = EvaluationSummary(settings.name, settings.main_metric, settings.seed)
    show = watched(display.stage)
    with keeping(summary, run.name, run, address):
        tasks = ingest_suite(settings, show)
        check_slices(settings, tasks)
        opened = open_models(list(map(parse_model, models)), settings, tasks, tracking_uri, api_key=api_key, show=show)
        policies = {label: each.policy for label, each in opened.items()}
        asked = {label for label, each in opened.items() if each.named.kind == "endpoint"}
        results = evaluate_scenarios(settings, policies, tasks, show=show, asked=asked)
        _summarise(summary, settings, opened, results)
        with show("MLflow"):
            parent = report_evaluation(settings, opened, results, summary, address, run)
            summary.status, summary.seconds = "finished", time.perf_counter() - started
            end_report(parent, summary)
        if summary.mlflow_run_id is not None:
            log_metadata(metadata={"mlflow_run_id": summary.mlflow_run_id}, run_id_name_or_prefix=str(run.id))


def _summarise(
    summary: EvaluationSummary,
    suite: SuiteConfig,
    opened: dict[str, Opened],
    results: dict[str, dict[str, Evaluated]],
) -> None:
    summary.models = {label: each.facts() for label, each in opened.items()}
    summary.scenarios = {
        cell: {
            label: {name: each for name, each in dataclasses.asdict(found.measures).items() if name != "policy"}
            for label, found in of_models.items()
        }
        for cell, of_models in results.items()
    }
    each_judging = (each.evaluation.judging for of_models in results.values() for each in of_models.values())
    summary.note_judging("scenarios", add_judging(each_judging))
    evaluations = {
        cell: {label: each.evaluation for label, each in of_models.items()} for cell, of_models in results.items()
    }
    summary.differences = [pair.as_json() for pair in compare_models(evaluations, suite.main_metric)]


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
    folder = folder_of(home, run)
    own = home.mlflow_artifacts.as_uri() if address == home.tracking_uri else None
    tags = {"zenml.run_id": root, RUN_NAME_TAG: run.name, "rlft.suite": suite.name, "rlft.git_commit": rlft_commit()}
    parent = Tracker(
        address,
        suite.experiment or suite.name,
        root,
        run.name,
        artifact_location=own,
        tags=tags | {KIND_TAG: "evaluation"},
        missed_path=folder / MISSED_FILE,
    )
    parent.log_params(suite.model_dump(include={"name", "seed", "metric"}))
    parent.log_json("suite.json", suite.model_dump())
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
            )
            place = folder / f"{cell}-{label}.{MISSED_FILE}"
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
