"""One MLflow run for each pipeline run, written from the pipeline's body, and never in the way of training.

Only `MlflowClient` with an address and a run id is used, never the fluent API: the run does not depend on global
state, and a resumed or replayed pipeline finds its run again by the tag `mlflow.rlft.root_run`. A call that fails is
kept, tried again at the next one, and at the end written to a file.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from mlops.tracking.experiments import active_experiment
from mlops.tracking.missed import Entry, read_missed, write_missed
from mlops.tracking.patience import STORE, Patience
from mlops.tracking.reach import REFUSALS, check_reachable, quick_http
from mlops.tracking.root_tags import OLD_ROOT_RUN_TAG, ROOT_RUN_TAG
from mlops.tracking.values import MAX_TAG, describe_tasks, flatten, legal_name, redact, short
from mlops.tracking.view import VIEW, VIEW_TAG
from mlops.tracking.writer import RunWriter
from rlft.secrets import hide, hide_secrets
from rlft.shortage import Shortage, shortage_of
from rlft.types import TaskSet

logger = logging.getLogger(__name__)

_SHORT: dict[Shortage | None, str] = {"disk": "the disk is full", "read-only": "nothing can be written there any more"}
DESCRIPTION = "mlflow.note.content"  # the tag that MLflow shows as a run's description, and reads as Markdown
# What MLflow shows as the description of an experiment that rlft has made.
_NOTE = (
    "Runs of `rlft`. The result of each comes first, in the metrics under `0_result`, in the description of the run, "
    "and in its `report.html`. `rlft compare RUN RUN` says which differences between runs stand."
)


class Tracker:
    """The MLflow run of a pipeline run. Made by `Tracker.open`; no method raises because MLflow fails."""

    def __init__(
        self,
        tracking_uri: str,
        experiment: str,
        root_run: str,
        run_name: str,
        *,
        missed_path: Path,
        artifact_location: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        self.tracking_uri, self.experiment, self.root_run, self.run_name = tracking_uri, experiment, root_run, run_name
        self.missed_path, self.artifact_location, self.tags = Path(missed_path), artifact_location, dict(tags or {})
        self.run_id: str | None = None
        self.experiment_id: str | None = None
        self._writer: RunWriter | None = None
        self._backlog: list[Entry] = []  # what is to be written, in order
        self._warned: set[str] = set()  # kinds of entries whose failure was told
        self._patience = Patience()
        self._is_kept = False  # whether there may be a file of what is missing
        self._is_lost = False  # whether that file lacks some of it

    @classmethod
    def open(
        cls,
        tracking_uri: str,
        experiment: str,
        root_run: str,
        run_name: str,
        artifact_location: str | None = None,
        tags: Mapping[str, str] | None = None,
        *,
        missed_path: Path,
    ) -> Tracker:
        """Find the run tagged with `root_run` (ZenML's id of the first attempt) in `experiment`, or make both.

        `artifact_location` is given to a new experiment, `tags` to a new run. What cannot be written is left in
        `missed_path` (JSON); entries that an earlier attempt of the same root run left there are tried again.
        """
        tracker = cls(
            tracking_uri,
            experiment,
            root_run,
            run_name,
            missed_path=missed_path,
            artifact_location=artifact_location,
            tags=tags,
        )
        tracker._backlog = read_missed(tracker.missed_path, root_run)
        tracker._is_kept = True
        tracker.flush()
        return tracker

    @property
    def is_away(self) -> bool:
        """Whether the store has just not answered, and is left alone for now."""
        return self._patience.is_quiet(STORE)

    @property
    def where(self) -> str:
        """Where a person finds the run: its page on a server, else the store and the run's id."""
        store = redact(self.tracking_uri).rstrip("/")
        if self.run_id is None:
            return f"{store} (no run: it could not be opened)"
        if urlsplit(self.tracking_uri).scheme in ("http", "https"):
            return f"{store}/#/experiments/{self.experiment_id}/runs/{self.run_id}"
        return f"{store}, experiment {self.experiment}, run {self.run_id}"

    def log_params(self, params: Mapping[str, Any]) -> None:
        """Write settings, nested ones as `outer.inner`. The first value stays; a later change is only warned of."""
        self._write({"kind": "params", "values": flatten(hide_secrets(params))})

    def log_metrics(self, metrics: Mapping[str, float], step: int, when: float | None = None) -> None:
        """Write the metrics of a round (`step`), each only if the run has no value of it at that step.

        `when` they were measured is in seconds since the epoch; without it that is now. Values that are not finite are
        left out, with a warning.
        """
        finite = {legal_name(name): float(value) for name, value in metrics.items() if math.isfinite(value)}
        if len(finite) < len(metrics):
            names = sorted(name for name, value in metrics.items() if not math.isfinite(value))
            logger.warning("step %d: %s not finite, not written", step, ", ".join(names))
        if finite:
            self._write(
                {"kind": "metrics", "step": step, "time_ms": int((when or time.time()) * 1000), "values": finite}
            )

    def log_result(self, metrics: Mapping[str, float]) -> None:
        """Write metrics at step 0, where MLflow draws bars, in place of what the run has of them.

        NaN, for what is not known yet, keeps their place before all that is logged meanwhile.
        """
        self._write({"kind": "result", "time_ms": int(time.time() * 1000), "values": dict(metrics)})

    def log_curves(self, curves: Mapping[str, Sequence[float]]) -> None:
        """Write whole curves, whose first value is that of step 1; what the run has of them stays as it is.

        Values that are not finite are left out.
        """
        values = {legal_name(name): list(map(float, curve)) for name, curve in curves.items() if curve}
        if values:
            # A waiting entry of the same curves is an earlier state of them.
            self._backlog = [e for e in self._backlog if e["kind"] != "curves" or e["values"].keys() != values.keys()]
            self._write({"kind": "curves", "time_ms": int(time.time() * 1000), "values": values})

    def log_tasks(self, tasks: TaskSet, source: str = "") -> None:
        """Name the tasks of each split as a data set of the run, by fingerprint; `source` is for people to read."""
        self._write({"kind": "tasks", "datasets": describe_tasks(tasks, source)})

    def set_tags(self, tags: Mapping[str, Any]) -> None:
        """Set tags of the run; a later value replaces an earlier one."""
        self._write({"kind": "tags", "values": {k: redact(str(v))[:MAX_TAG] for k, v in tags.items()}})

    def log_json(self, name: str, content: Any) -> None:
        """Write a JSON artifact, `name` with its folder and ending. What JSON does not know becomes its text."""
        text = hide(json.dumps(hide_secrets(content), indent=1, default=str, ensure_ascii=False))
        self.log_text(name, text)

    def log_text(self, name: str, text: str) -> None:
        """Write a text artifact; a later one of that name replaces it."""
        inside = "/".join(part for part in name.split("/") if part not in ("", ".", ".."))
        self._write({"kind": "text", "name": inside, "text": text})

    def flush(self) -> int:
        """Try again what failed so far; returns how many entries are still missing."""
        self._patience.end_pauses()
        self._retry()
        self._keep()
        return len(self._backlog)

    def finish(self, status: str = "FINISHED") -> None:
        """End the run (`FINISHED`, `FAILED` or `KILLED`); what is still missing goes to `missed_path`."""
        self._backlog.append({"kind": "end", "status": status})
        if missing := self.flush():
            where = "they are lost" if self._is_lost else f"they are in {self.missed_path}"
            logger.warning("%d entries did not reach the tracker; %s", missing, where)

    def _write(self, entry: Entry) -> None:
        self._backlog.append(entry)
        self._retry()
        self._keep()

    def _keep(self) -> None:
        """Keep on disk what is missing, at once: the process may be killed while it waits for the store."""
        try:
            if self._backlog:
                write_missed(self.missed_path, self.root_run, self._backlog)
            elif self._is_kept:
                self.missed_path.unlink(missing_ok=True)
            self._is_kept, self._is_lost = bool(self._backlog), False
        except OSError as cause:
            self._is_lost = True
            if "keep" not in self._warned:
                self._warned.add("keep")
                logger.error("%s cannot be written (%s): what the tracker misses is lost", self.missed_path, cause)

    def _retry(self) -> None:
        """Write the backlog in order. A refused entry stays and the next is tried; one that finds nobody there stops
        the others that go to the same place."""
        if self.is_away:
            return
        with quick_http():
            if self._patience.doubts_store and not self._attempt("probe", lambda: check_reachable(self.tracking_uri)):
                return
            if self._writer is None:
                self._attempt("open", self._open)
            if (writer := self._writer) is None:
                return
            waiting, self._backlog = self._backlog, []
            for entry in waiting:
                kind, quiet = entry["kind"], self._patience.is_quiet(_place(entry["kind"]))
                if quiet or not self._attempt(kind, lambda entry=entry: writer.write(entry)):
                    self._backlog.append(entry)

    def _attempt(self, kind: str, call: Callable[[], None]) -> bool:
        """Call and return whether it worked. The first failure of a kind is warned of; a place that fails is paused."""
        try:
            call()
        except Exception as cause:  # whatever MLflow, a driver or the network throws must not stop training
            refused = isinstance(cause, MlflowException) and cause.error_code in REFUSALS
            if not refused or kind == "open":
                self._patience.failed(_place(kind))
            if kind not in self._warned and kind != "probe":  # what made it necessary has been told
                self._warned.add(kind)
                # MLflow goes on with the connection's own words, which name Python's objects.
                text = f"{type(cause).__name__}: {cause}".split(" with exception ")[0]
                text = _SHORT.get(shortage_of(cause), text)
                reason = short(text, self.tracking_uri)
                logger.warning("tracking (%s) failed and is tried again later; training goes on. %s", kind, reason)
            return False
        if kind != "probe":  # a server that answers may still have a database that does not
            self._patience.answered(_place(kind))
        return True

    def _open(self) -> None:
        """Find or make experiment and run. Raises what MLflow, a driver or the network throws."""
        check_reachable(self.tracking_uri)
        client = MlflowClient(tracking_uri=self.tracking_uri)
        experiment_id = self._experiment(client)
        found = [
            run
            for tag in (ROOT_RUN_TAG, OLD_ROOT_RUN_TAG)
            for run in client.search_runs([experiment_id], f"tags.`{tag}` = '{self.root_run}'", max_results=1)
        ]
        if found:
            run_id = found[0].info.run_id
            client.update_run(run_id, status="RUNNING")
        else:
            tags = {k: redact(str(v))[:MAX_TAG] for k, v in self.tags.items()} | {ROOT_RUN_TAG: self.root_run}
            run_id = client.create_run(experiment_id, run_name=self.run_name, tags=tags).info.run_id
        if not experiment_id or not run_id:  # what MLflow makes of an empty answer, as proxies give
            raise ConnectionError("it answered without an experiment or a run")
        self.experiment_id, self.run_id = experiment_id, run_id
        self._writer = RunWriter(client, run_id, is_new=not found)
        logger.info("tracking in %s", self.where)

    def _experiment(self, client: MlflowClient) -> str:
        """Return the id of the experiment, which another run may make at the same moment."""
        if (found := active_experiment(client, self.experiment)) is None:
            try:
                tags = {"mlflow.note.content": _NOTE, VIEW_TAG: VIEW}
                return client.create_experiment(self.experiment, artifact_location=self.artifact_location, tags=tags)
            except MlflowException as cause:
                if (found := active_experiment(client, self.experiment)) is None:
                    raise cause
        if found.tags.get(VIEW_TAG) != VIEW:
            client.set_experiment_tag(found.experiment_id, VIEW_TAG, VIEW)
        return found.experiment_id


def end_killed(tracking_uri: str, run_id: str, said: str, status: str = "failed") -> None:
    """End the run of a process that could not do so itself, and head its description by what is `said` (Markdown).

    `status` is that of its summary. The user's note stays below. Raises what MLflow, a driver or the network throws.
    """
    check_reachable(tracking_uri)
    with quick_http():
        client = MlflowClient(tracking_uri=tracking_uri)
        client.set_tag(run_id, "rlft.status", status)
        note = client.get_run(run_id).data.tags.get(DESCRIPTION, "")
        if not note.startswith(said):
            client.set_tag(run_id, DESCRIPTION, "\n\n".join(each for each in (said, note) if each))
        client.set_terminated(run_id, "KILLED")


def _place(kind: str) -> str:
    """Return where entries of a kind go. Artifacts go elsewhere: a bucket that is away does not hold up the curves."""
    return "artifacts" if kind == "text" else STORE
