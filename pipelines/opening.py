"""Opens and closes what a run leaves beside its artifacts: the MLflow run, the summary, and the links between them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from mlflow import MlflowClient
from zenml import log_metadata
from zenml.client import Client
from zenml.models import PipelineRunResponse
from zenml.utils.dashboard_utils import get_run_url

from mlops.home.folder import Home, find_home
from mlops.home.processes import claimed, resume_command, with_command
from mlops.registry.client import RegistryClient, current_champion
from mlops.registry.names import RUN_NAME_TAG
from mlops.registry.versions import open_name
from mlops.runs.finding import attempts_of, root_run
from mlops.runs.identity import identity_facts, identity_tags
from mlops.runs.labels import Labels
from mlops.runs.report import make_report
from mlops.runs.runtime import current_run
from mlops.runs.shared import SharedRun
from mlops.runs.signals import signalled
from mlops.runs.store import RunStore
from mlops.summary.file import SUMMARY_FILE, keep_summary, read_summary
from mlops.summary.result import GPU_HOURS, NOT_YET, cut_short, description, links_of, result_metrics
from mlops.summary.summary import Summary
from mlops.tracking.address import REFUSALS, check_reachable, quick_http
from mlops.tracking.run import DESCRIPTION, MISSED_FILE, Tracker, active_experiment
from mlops.tracking.values import redact, short
from pipelines.observer import Attempt, Observer
from rlft.config import Config
from rlft.environments.fingerprints import EnvironmentFingerprints
from rlft.errors import (
    SAID,
    FixedSettingError,
    FormatVersionError,
    RlftError,
    StorageError,
    TrackerError,
    shortage_of,
)
from rlft.texts.secrets import hide

logger = logging.getLogger(__name__)


@contextmanager
def open_run(
    config: Config, fingerprints: EnvironmentFingerprints, tracking_uri: str, labels: Labels
) -> Iterator[Observer]:
    """Open the MLflow run of this pipeline run, or of the one that it resumes; write summary and end state at the end.

    A run that fails leaves a summary with `status: failed` and the reason, and the error is raised again.
    """
    run, home = current_run(), find_home()
    own_store = tracking_uri == home.tracking_uri
    seen = _begin(config, fingerprints, tracking_uri, labels, run)
    status = "FAILED"
    try:
        _open_registry(tracking_uri, config.registry_name, seen.tracker, own_store=own_store)
        with claimed(seen.attempt.folder):
            yield seen
        status = "FINISHED"
    except TrackerError:
        raise  # all is done but registering, and `promotion` says why not
    except BaseException as cause:
        if signalled() or isinstance(cause, KeyboardInterrupt):
            status, seen.summary.status, seen.summary.error = "KILLED", "interrupted", "interrupted"
        elif isinstance(cause, Exception):
            _note_failure(seen, cause)
        raise
    finally:
        _close(seen, home, run, status)


def _begin(
    config: Config, fingerprints: EnvironmentFingerprints, tracking_uri: str, labels: Labels, run: PipelineRunResponse
) -> Observer:
    """Open the run in MLflow, and write down what a kill must leave: the process, a summary, and what exactly runs."""
    home, first = find_home(), root_run(run)
    root = str(first.id)
    own_store = tracking_uri == home.tracking_uri
    stack = "" if own_store else Client().active_stack_model.name
    name = labels.name or first.name
    folder = home.run_folder(name, shared=not own_store)
    if own_store:
        RunStore(home).start(run, name)
    tags = {"zenml.run_id": str(run.id), RUN_NAME_TAG: run.name, **identity_tags(config, labels)}
    tracker = Tracker(
        tracking_uri,
        config.tracking.experiment or config.name,
        root,
        first.name,
        artifact_location=home.mlflow_artifacts.as_uri() if own_store else None,
        tags=tags,
        missed_path=folder / MISSED_FILE,
    )
    resume = resume_command(name, stack)
    # The status stands until the body has set another one.
    summary = Summary(status="failed", pipeline_run_id=str(run.id))
    if run.original_run and (before := read_summary(folder)) is not None:
        # Until this attempt has gone through them itself.
        summary.ledger, summary.rounds, summary.best_round = before.ledger, before.rounds, before.best_round
    number = len(attempts_of(run))
    logger.info("run %s (`%s` if it is cut short)", run.name, resume)
    summary.mlflow_run_id = tracker.run_id
    keep_summary(folder, summary.model_copy(update={"status": "running"}))  # all that a kill leaves
    if number == 1:
        tracker.set_tags(tags | {"rlft.status": "running"})
        tracker.log_result(NOT_YET)
    else:
        tracker.set_tags(tags | {DESCRIPTION: ""})  # it is not described as interrupted any more
    tracker.log_params(config.model_dump())
    code = identity_facts(fingerprints, labels)
    if own_store:
        RunStore(home).note(name, str(run.id), code=code, mlflow_run_id=tracker.run_id)
    tracker.log_json(f"identity/attempt-{number}.json", code)
    attempt = Attempt(name, folder, number, resume, tags, code, is_shared=not own_store)
    return Observer(config, tracker, summary, attempt)


def _note_failure(seen: Observer, cause: Exception) -> None:
    """Note why a run has failed."""
    short = None if isinstance(cause, RlftError) else shortage_of(cause)  # libraries wrap that in texts of their own
    seen.summary.error = hide(SAID[short] if short else with_command(str(cause), seen.attempt.resume))
    seen.summary.needs_new_settings = isinstance(cause, FixedSettingError)


def _open_registry(tracking_uri: str, name: str, tracker: Tracker, *, own_store: bool) -> None:
    """Open the model that a version will be added to, so that what cannot work is known before anything is trained.

    Raises StorageError for a store in the home that does not work, for an experiment that is deleted, for a name that a
    server refuses, and for a champion that does not exist any more; FormatVersionError for one that another rlft has
    registered. A server that does not answer may do so later: then this only warns.
    """
    try:
        check_reachable(tracking_uri)
        with quick_http():
            active_experiment(MlflowClient(tracking_uri), tracker.experiment)
            if own_store and tracker.run_id is None:
                raise ConnectionError("no run could be opened")
            open_name(RegistryClient(tracking_uri), name)
            current_champion(tracking_uri, name)
    except FormatVersionError:  # the champion is one of another rlft
        raise
    except TrackerError as odd:  # the experiment is deleted, or the champion is a version that is not there
        raise StorageError(f"{odd.what}, so nothing is trained", where=odd.where, fix=odd.fix) from odd
    except Exception as cause:  # whatever MLflow, a driver or the network throws
        reason = short(str(cause) or type(cause).__name__, tracking_uri)
        if not own_store and getattr(cause, "error_code", None) not in REFUSALS | {"UNAUTHENTICATED"}:
            logger.warning("the registry does not answer: the model cannot be registered unless it does. %s", reason)
            return
        raise StorageError(
            f"the model {name!r} cannot be registered there, so nothing is trained: {reason}",
            where=redact(tracking_uri),
            fix="`rlft doctor` looks for damage in .rlft/" if own_store else "allow it there, or set promotion.name",
        ) from cause


def _close(seen: Observer, home: Home, run: PipelineRunResponse, status: str) -> None:
    """Write everything that must be written however the run has ended."""
    run_id, summary, tracker, attempt = str(run.id), seen.summary, seen.tracker, seen.attempt
    seen.keep()
    seen.measure()
    summary.mlflow_run_id = tracker.run_id
    result = result_metrics(summary, seen.gpus, seen.trained, seen.tokens)
    tracker.log_result(result)
    page = _tried("the run's page in ZenML is not known", get_run_url, run)
    links = links_of(summary, tracker.experiment_id, page)
    said = description(summary, attempt.name, links)
    if summary.status == "interrupted":
        said = cut_short("interrupted", f"`{attempt.resume}` goes on")
    tracker.set_tags({"rlft.status": summary.status, DESCRIPTION: said})
    tracker.log_json(SUMMARY_FILE, summary.model_dump())
    keep_summary(attempt.folder, summary)
    if not attempt.is_shared:
        came_to = "completed" if status == "FINISHED" else "failed"
        RunStore(home).end(attempt.name, run_id, came_to, gpu_hours=result.get(GPU_HOURS))
    _tried("there is no report.html in MLflow; `rlft report` writes it", _log_report, seen, home, run)
    tracker.finish(status)
    if tracker.run_id is not None:
        link = partial(log_metadata, metadata={"mlflow_run_id": tracker.run_id}, run_id_name_or_prefix=run_id)
        _tried("ZenML does not know the run in MLflow", link)


def _tried(unless: str, call: Callable[..., Any], *given: Any) -> Any:
    """Return what a call does; warn, and return `None`, if it fails, as the run has ended as it has."""
    try:
        return call(*given)
    except Exception as cause:  # whatever a store, a server that is away, a driver or a disk throws
        logger.warning("%s: %s", unless, hide(str(cause)))
        return None


def _log_report(seen: Observer, home: Home, run: PipelineRunResponse) -> None:
    """Write the page about the run into MLflow: that of the step which made one, or a new one if it was cut short."""
    page = make_report(SharedRun(home, run), seen.summary) if seen.page is None else seen.page.load()
    seen.tracker.log_text("report.html", page)
