"""Opens and closes what a run leaves beside its artifacts: the MLflow run, the summary, and the links between them."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import torch
from mlflow import MlflowClient
from zenml import log_metadata
from zenml.client import Client
from zenml.execution.pipeline.dynamic.run_context import DynamicPipelineRunContext
from zenml.metadata.metadata_types import MetadataType
from zenml.models import PipelineRunResponse
from zenml.utils.dashboard_utils import get_run_url

from mlops.home.folder import Home, find_home
from mlops.home.processes import forget_process, note_process, resume_command, with_command
from mlops.registry.named import current_champion
from mlops.registry.names import RUN_NAME_TAG
from mlops.registry.versions import open_name
from mlops.runs.finding import attempts_of, later_attempt, root_run
from mlops.runs.identity import identity_facts, identity_tags
from mlops.runs.labels import Labels
from mlops.runs.listing import note_versions
from mlops.runs.noting import close_model_version, note_artifacts, seen_on_stack
from mlops.runs.report import make_report
from mlops.runs.shared import SharedRun
from mlops.runs.starting import registry_name
from mlops.runs.store import RunStore
from mlops.runtime.signals import signalled
from mlops.stacks.away import server_error, was_ended
from mlops.summary.file import SUMMARY_ARTIFACT, keep_summary, read_summary
from mlops.summary.result import GPU_HOURS, NOT_YET, cut_short, description, links_of, result_metrics
from mlops.summary.sections import JudgeCost, Seconds
from mlops.summary.summary import Summary
from mlops.tracking.experiments import active_experiment
from mlops.tracking.reach import REFUSALS, check_reachable, quick_http
from mlops.tracking.run import DESCRIPTION, Tracker
from mlops.tracking.system import SystemMetrics
from mlops.tracking.values import redact, short
from rlft.config import Config
from rlft.errors import (
    FixedSettingError,
    FormatVersionError,
    ResumedElsewhereError,
    RlftError,
    StorageError,
    TrackerError,
)
from rlft.estimation.peak import peak_memory
from rlft.fingerprints.identity import EnvironmentFingerprints
from rlft.secrets import hide
from rlft.shortage import SAID, shortage_of
from rlft.types import Interval, Judging

logger = logging.getLogger(__name__)


@dataclass
class Record:
    """The open record of a run, which the pipeline's body fills: its MLflow run, summary, name and tags."""

    tracker: Tracker
    summary: Summary
    name: str
    tags: dict[str, str] = field(default_factory=dict)
    resume: str = "rlft resume"
    """The command that goes on with the run."""
    code: dict[str, Any] = field(default_factory=dict)
    """What exactly ran, as `identity_facts` says it."""
    attempt: int = 1
    """Which attempt at the run this is."""
    audit: dict[str, Any] | None = None
    """The report of the reward audit, once there is one."""
    trained: Interval | None = None
    """The trained policy's mean on `test` in the metric of the run, once it is evaluated."""
    tokens: int = 0
    """How many tokens the rounds have sampled."""
    gpus: int = field(default_factory=torch.cuda.device_count)
    """How many GPUs the run uses: those of this machine, or those of a cluster that it is a part of."""
    disk_before: int = 0
    """Bytes of the home when this attempt began."""
    began: float = field(default_factory=time.perf_counter)
    """When this attempt began, on the clock of `time.perf_counter`."""
    page: Any = None
    """The page about the run, as the artifact of the step that has made it, once there is one."""
    shows_highest_paid: bool = False
    """Whether each round has a page of the attempts that it paid most."""
    is_shared: bool = False
    """Whether the run is on a stack, where others may go on with it."""
    was_ended: bool = False
    """Whether somebody else has marked this attempt as failed, since it gave no sign of life."""
    zenml_answers: bool = True
    """Whether ZenML can be asked: what has ended the run may be that its server is away."""

    def keep(self) -> None:
        """Write down where the run's artifacts lie, outside of ZenML's database, and how the machine was used."""
        assert self.summary.pipeline_run_id is not None
        if not self.is_shared:
            note_artifacts(RunStore(find_home()), self.name, self.summary.pipeline_run_id)
        self.system.log(self.tracker)

    def keep_so_far(self) -> None:
        """Write down what the run has come to, for whoever finds it cut short, and do what `keep` does."""
        try:
            keep_summary(find_home(), self.summary.model_copy(update={"status": "running"}))
        except OSError as cause:  # a disk that takes nothing is told of by whatever needs it more
            logger.debug("the summary could not be written: %s", cause)
        self.keep()

    def measure(self) -> None:
        """Note in the summary how long this attempt has taken up to now, and how much disk and memory."""
        self.seconds.total = time.perf_counter() - self.began
        self.summary.disk_megabytes = round(max(0, _disk_use(find_home()) - self.disk_before) / 1e6, 1)
        held = peak_memory()
        self.summary.memory_megabytes = round(held.process / 1e6, 1)
        self.summary.gpu_memory_megabytes = None if held.gpu is None else round(held.gpu / 1e6, 1)

    def note_judging(self, stage: str, judging: Judging | None) -> None:
        """Note in the summary what judges were asked in a stage, if any was."""
        if judging is not None:
            self.summary.judges = {**self.summary.judges, stage: JudgeCost(**asdict(judging))}

    def note_canaries(self, judging: Judging | None, said: list[dict[str, Any]]) -> None:
        """Note what judges said of the attempts by which one that has changed is noticed, and what that took."""
        self.note_judging("canaries", judging)
        self.tracker.log_json("judge_canaries.json", said)

    @cached_property
    def system(self) -> SystemMetrics:
        """How the machine is used, as far as it is not written yet."""
        return SystemMetrics(self.attempt)

    @property
    def seconds(self) -> Seconds:
        """Wall seconds by stage, as they end up in the summary."""
        return self.summary.seconds


@contextmanager
def open_record(
    config: Config, fingerprints: EnvironmentFingerprints, tracking_uri: str, labels: Labels
) -> Iterator[Record]:
    """Open the MLflow run of this pipeline run, or of the one that it resumes; write summary and end state at the end.

    A run that fails leaves a summary with `status: failed` and the reason, and the error is raised again.
    """
    context = DynamicPipelineRunContext.get()
    assert context is not None, "a record is opened in the body of a pipeline"
    run, home = context.run, find_home()
    own_store = tracking_uri == home.tracking_uri
    record = _begin(config, fingerprints, tracking_uri, labels, run)
    status = "FAILED"
    try:
        _open_registry(tracking_uri, registry_name(config), record.tracker, own_store=own_store)
        seen = seen_on_stack(tracking_uri, home, run.id)
        with record.system.measuring(), seen:
            yield record
        status = "FINISHED"
    except TrackerError:
        raise  # all is done but registering, and `promotion` says why not
    except BaseException as cause:
        if signalled() or isinstance(cause, KeyboardInterrupt):
            status, record.summary.status, record.summary.error = "KILLED", "interrupted", "interrupted"
        elif isinstance(cause, Exception):
            _note_failure(record, cause)
        raise
    finally:
        _close(record, home, run, status, labels.note)


def _begin(
    config: Config, fingerprints: EnvironmentFingerprints, tracking_uri: str, labels: Labels, run: PipelineRunResponse
) -> Record:
    """Open the run in MLflow, and write down what a kill must leave: the process, a summary, and what exactly runs."""
    home, first = find_home(), root_run(run)
    root = str(first.id)
    own_store = tracking_uri == home.tracking_uri
    stack = "" if own_store else Client().active_stack_model.name
    name = labels.name or first.name
    note_process(home, str(run.id), name, stack=stack)
    if own_store:
        RunStore(home).start(run, name)
    tags = {"zenml.run_id": str(run.id), RUN_NAME_TAG: run.name, **identity_tags(config, labels)}
    tracker = Tracker.open(
        tracking_uri,
        config.tracking.experiment or config.name,
        root,
        first.name,
        artifact_location=home.mlflow_artifacts.as_uri() if own_store else None,
        tags=tags,
        missed_path=home.missed_file(root),
    )
    resume = resume_command(name, stack)
    # The status stands until the body has set another one.
    summary = Summary(status="failed", pipeline_run_id=str(run.id), process=os.getpid())
    if run.original_run and (before := read_summary(home, str(run.original_run.id))) is not None:
        summary.ledger, summary.rounds = before.ledger, before.rounds  # until this attempt has gone through them itself
    record = Record(tracker, summary, name, tags, resume, attempt=len(attempts_of(run)), disk_before=_disk_use(home))
    record.is_shared = not own_store
    record.shows_highest_paid = bool(config.tracking.highest_paid)
    logger.info("run %s (`%s` if it is cut short)", run.name, resume)
    record.summary.mlflow_run_id = tracker.run_id
    keep_summary(home, record.summary.model_copy(update={"status": "running"}))  # all that a kill leaves
    # Also without a note: a run that goes on is not described as interrupted any more.
    tracker.set_tags(tags | ({DESCRIPTION: labels.note} if labels.note or record.attempt > 1 else {}))
    if record.attempt == 1:
        tracker.set_tags({"rlft.status": "running"})
        tracker.log_result(NOT_YET)
    tracker.log_params(config.model_dump())
    record.code = identity_facts(fingerprints, labels)
    if own_store:
        RunStore(home).note(name, str(run.id), code=record.code, mlflow_run_id=tracker.run_id)
    tracker.log_json(f"identity/attempt-{record.attempt}.json", record.code)
    return record


def _note_failure(record: Record, cause: Exception) -> None:
    away = server_error(cause, record.resume)
    short = None if isinstance(cause, RlftError) else shortage_of(cause)  # libraries wrap that in texts of their own
    record.summary.error = hide(SAID[short] if short and not away else with_command(str(away or cause), record.resume))
    record.summary.needs_new_settings = isinstance(cause, FixedSettingError)
    record.zenml_answers, record.was_ended = away is None, was_ended(cause)


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
            open_name(tracking_uri, name)
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


def _close(record: Record, home: Home, run: PipelineRunResponse, status: str, note: str) -> None:
    """Write everything that must be written however the run has ended; `note` is what the user wrote about it.

    Where ZenML's server is away the note of the process stays, as after a kill: ZenML takes the run for running. Raises
    ResumedElsewhereError, and leaves what all attempts share as it is, if somebody else has gone on with the run.
    """
    run_id = str(run.id)
    _leave_to_others(record, home, run)
    record.keep()
    record.measure()
    record.summary.mlflow_run_id = record.tracker.run_id
    result = result_metrics(record.summary, record.gpus, record.trained, record.tokens)
    record.tracker.log_result(result)
    shown = record.shows_highest_paid
    page = _page_of(run) if record.zenml_answers else None
    links = links_of(record.summary, record.tracker.experiment_id, page, highest_paid=shown)
    said = description(record.summary, record.name, note, links)
    if record.summary.status == "interrupted":
        said = "\n\n".join(filter(None, [cut_short("interrupted", f"`{record.resume}` goes on"), note]))
    record.tracker.set_tags({"rlft.status": record.summary.status, DESCRIPTION: said})
    record.tracker.log_json(SUMMARY_ARTIFACT, record.summary.model_dump())
    keep_summary(home, record.summary)
    if not record.is_shared:
        ended = "completed" if status == "FINISHED" else "failed"
        RunStore(home).end(record.name, run_id, ended, gpu_hours=result.get(GPU_HOURS))
        _note_versions(home)
    if record.zenml_answers:
        _log_report(record, home, run)
    record.tracker.finish(status)
    if not record.zenml_answers:
        return
    if record.tracker.run_id is not None:
        link: dict[str, MetadataType] = {"mlflow_run_id": record.tracker.run_id}
        log_metadata(metadata=link, run_id_name_or_prefix=run_id)
    close_model_version(run, record.summary)
    forget_process(home, run_id)  # last: as long as the note is there, a kill in between is found


def _note_versions(home: Home) -> None:
    try:
        note_versions(home)
    except Exception as cause:  # whatever MLflow, a driver or a disk throws: the run has ended as it has
        logger.warning("`rlft runs` does not show the versions as they are: %s", hide(str(cause)))


def _leave_to_others(record: Record, home: Home, run: PipelineRunResponse) -> None:
    """Raise ResumedElsewhereError if somebody else goes on with the run, or has ended this attempt to do so.

    The MLflow run and the model version are those of all attempts.
    """
    if not record.is_shared or not record.zenml_answers:
        return
    try:
        later = later_attempt(run)
    except Exception as cause:  # whatever a server throws that went away since
        logger.warning("whether somebody else has resumed this run is not known: %s", hide(str(cause)))
        later = None
    if later is None and not record.was_ended:
        return
    by = f" ({later.user.name})" if later is not None and later.user is not None else ""
    done = f"resumed {record.name} as {later.name}" if later is not None else f"taken {record.name} for dead"
    error = ResumedElsewhereError(
        f"somebody else{by} has {done}, since it had given no sign of life for long; what this process has done since "
        "is left out",
        where="RUN",
        fix="`rlft runs --stack` with the stack's name shows whether it goes on; `rlft resume` does if it does not",
    )
    record.summary.status, record.summary.error = "failed", str(error)
    keep_summary(home, record.summary)
    forget_process(home, str(run.id))
    raise error


def _page_of(run: PipelineRunResponse) -> str | None:
    """Return the address of a run in ZenML's dashboard; a store without a server has none."""
    try:
        return get_run_url(run)
    except Exception as cause:  # whatever a server that is away throws: the run has ended as it has
        logger.warning("the run's page in ZenML is not known: %s", hide(str(cause)))
        return None


def _log_report(record: Record, home: Home, run: PipelineRunResponse) -> None:
    """Write the page about the run into MLflow: that of the step which made one, or a new one if it was cut short.

    Whatever fails, the run has ended as it has.
    """
    try:
        page = make_report(SharedRun(home, run), record.summary) if record.page is None else record.page.load()
        record.tracker.log_text("report.html", page)
    except Exception as cause:  # a store that is away, or an artifact that has changed: both are told elsewhere
        logger.warning("there is no report.html in MLflow; `rlft report` writes it: %s", hide(str(cause)))


def _disk_use(home: Home) -> int:
    """Return the bytes of all files in the home."""
    total = 0
    for file in home.root.rglob("*"):
        try:
            total += file.stat().st_size if file.is_file() and not file.is_symlink() else 0
        except OSError:  # another run may remove files meanwhile
            logger.debug("%s is gone", file)
    return total
