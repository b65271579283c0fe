"""The pipeline `evaluate`: attempts a suite with several models, and compares them task by task."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from zenml import pipeline
from zenml.execution.pipeline.dynamic.run_context import DynamicPipelineRunContext

from mlops.record.evaluation import open_evaluation
from mlops.runtime.runtime import Lent, shared_runtime, start_runtime, stop_runtime
from mlops.summary.evaluations import EvaluationSummary, measures_as_json, pairs_as_json
from mlops.tracking.address import tracking_address
from mlops.tracking.scorers import load_scorers
from pipelines import models as opening
from pipelines import scenarios, suite_caveats
from pipelines.judges import meet_judges_of_suite
from pipelines.models import Opened, open_models
from pipelines.reporting import end_report, report_evaluation
from pipelines.scenarios import Evaluated, check_slices, evaluate_scenarios, ingest_suite
from pipelines.showing import watched
from pipelines.suite_caveats import forgetting_as_json, suite_contamination, suite_forgetting
from rlft.bars import Display
from rlft.config import SuiteConfig
from rlft.errors import EngineError
from rlft.suites.differences import compare_models
from rlft.suites.models import parse_model
from rlft.types import add_judging

STEPS = [*scenarios.STEPS, *opening.STEPS, *suite_caveats.STEPS]


@pipeline(dynamic=True, depends_on=STEPS, on_init=start_runtime, on_cleanup=stop_runtime)
def evaluate(suite: dict[str, Any], models: list[str], tracking_uri: str, api_key: str | None = None) -> None:
    """Evaluate models on a suite.

    `suite` is a `rlft.config.SuiteConfig` as a mapping, `models` are named as in `rlft.suites.models`, `tracking_uri`
    is an address of MLflow or `home`, and `api_key` is `env:NAME` for the key of endpoints.
    """
    settings = SuiteConfig.model_validate(suite)
    display, runtime = Display(), shared_runtime()
    runtime.lent = Lent(progress=display.report)
    context = DynamicPipelineRunContext.get()
    assert context is not None
    address, started = tracking_address(tracking_uri), time.perf_counter()
    summary = EvaluationSummary(settings.name, settings.main_metric, settings.seed)
    show = watched(display.stage)
    with open_evaluation(summary, address, context.run), _explained():
        if settings.scorers:
            load_scorers(settings.scorers)  # before anything is attempted: one may not be there
        tasks = ingest_suite(settings, show)
        check_slices(settings, tasks)
        meet_judges_of_suite(settings, show, summary.note_canaries)
        opened = open_models(list(map(parse_model, models)), settings, tasks, tracking_uri, api_key=api_key, show=show)
        policies = {label: each.policy for label, each in opened.items()}
        asked = {label for label, each in opened.items() if each.is_asked}
        results = evaluate_scenarios(settings, policies, tasks, show=show, asked=asked)
        _summarise(summary, settings, opened, results)
        bits = suite_forgetting(settings, policies, asked, show)
        summary.forgetting = forgetting_as_json(bits, settings.forgetting_margin)
        summary.contamination = suite_contamination(settings, tasks, results, show)
        with show("MLflow"):
            parent = report_evaluation(settings, opened, results, summary, address, context.run)
            summary.status, summary.seconds = "finished", time.perf_counter() - started
            end_report(parent, summary)


@contextmanager
def _explained() -> Iterator[None]:
    """Let the error of an endpoint say what to do about an evaluation, and not about a run that trains."""
    try:
        yield
    except EngineError as cause:
        raise EngineError(cause.what, where=cause.where.replace("controls: ", ""), fix=_AGAIN) from cause


_AGAIN = "mend the model's address, key or settings, and give the command again: what was evaluated is in the cache"


def _summarise(
    summary: EvaluationSummary,
    suite: SuiteConfig,
    opened: dict[str, Opened],
    results: dict[str, dict[str, Evaluated]],
) -> None:
    summary.models = {label: each.facts() for label, each in opened.items()}
    summary.scenarios = {
        cell: {label: measures_as_json(each.measures) for label, each in of_models.items()}
        for cell, of_models in results.items()
    }
    each_judging = (each.evaluation.judging for of_models in results.values() for each in of_models.values())
    summary.note_judging("scenarios", add_judging(each_judging))
    evaluations = {
        cell: {label: each.evaluation for label, each in of_models.items()} for cell, of_models in results.items()
    }
    summary.differences = pairs_as_json(compare_models(evaluations, suite.main_metric))
