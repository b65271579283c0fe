"""One MLflow run for each pipeline run, written from the pipeline's body, and never in the way of training.

Only `MlflowClient` with an address and a run id is used, never the fluent API: the run does not depend on global
state, and a resumed or replayed pipeline finds its run again by the tag `mlflow.rlft.root_run`. Writing a thing twice
leaves one of it. A call that fails is kept, tried again at the next one, and at the end written to a file; a store that
does not answer is left alone for ever longer, so that waiting for it never adds up.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mlflow import MlflowClient
from mlflow.entities import DatasetInput, Experiment, LifecycleStage, LoggedModelInput, Metric, Param, RunTag
from mlflow.exceptions import MlflowException

from mlops.tracking.address import REFUSALS, answering, check_reachable, quick_http
from mlops.tracking.values import MAX_TAG, dataset_input, describe_tasks, flatten, legal_name, redact, short
from rlft.errors import SAID, TrackerError, shortage_of
from rlft.files import write_file
from rlft.texts.secrets import hide, hide_secrets
from rlft.types import TaskSet

if TYPE_CHECKING:  # else serving would load what trains
    from rlft.evaluation.searches.prompts import PromptReport
    from rlft.evaluation.searches.validator import ControlReport
    from rlft.training.imitation import SftReport

logger = logging.getLogger(__name__)

# With ZenML's id of the run's first attempt. MLflow shows nobody what begins with `mlflow.`
ROOT_RUN_TAG = "mlflow.rlft.root_run"


# Twice as long after each failure in a row. A store that hangs takes some twenty seconds at first (`QUICK_HTTP`, tried
# twice), then a probe of five seconds after each of ever longer pauses.
PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 30.0, 600.0
MISSED_FILE = "missed.json"  # in the folder of a run: what could not be written into MLflow
STORE = "store"  # the place without which no other is of use
Entry = dict[str, Any]  # one thing to write: its `kind`, and what `RunWriter.write` needs for it, as JSON


def active_experiment(client: MlflowClient, name: str) -> Experiment | None:
    """Return an experiment by its name, or None if there is none.

    Raises TrackerError for one that is deleted, and what MLflow, a driver or the network throws.
    """
    found = client.get_experiment_by_name(name)
    if found is not None and found.lifecycle_stage != LifecycleStage.ACTIVE:
        fix = f"restore it with `mlflow experiments restore --experiment-id {found.experiment_id}`"
        raise TrackerError(f"the experiment {name!r} is deleted", where="MLflow", fix=fix)
    return found


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
                steps = [(n, step, v) for n, curve in entry["values"].items() for step, v in enumerate(curve, 1)]
                self._write_values([each for each in steps if math.isfinite(each[2])], entry["time_ms"])
            case "tags":
                self._client.log_batch(self._run_id, tags=[RunTag(k, v) for k, v in entry["values"].items()])
            case "tasks":
                self._write_tasks([dataset_input(fields) for fields in entry["datasets"]])
            case "model":
                self._client.log_inputs(self._run_id, models=[LoggedModelInput(entry["id"])])
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


DESCRIPTION = "mlflow.note.content"  # the tag that MLflow shows as a run's description, and reads as Markdown
# What MLflow shows as the description of an experiment that rlft has made.
_NOTE = (
    "Runs of `rlft`. The result of each comes first, in the metrics under `0_result`, in the description of the run, "
    "and in its `report.html`. `rlft compare RUN RUN` says which differences between runs stand."
)


class Tracker:
    """The MLflow run of a pipeline run; no method raises because MLflow fails.

    It is the run tagged with `root_run` (ZenML's id of the first attempt) in `experiment`; both are made if need be.
    `artifact_location` is given to a new experiment, `tags` to a new run. What cannot be written is left in
    `missed_path` (JSON); entries that an earlier attempt of the same root run left there are tried again.
    """

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
        self._backlog = self._missed()  # what is to be written, in order
        self._warned: set[str] = set()  # kinds of entries whose failure was told
        self._failures: dict[str, int] = {}  # how often in a row a place has failed: the store, or that of artifacts
        self._until: dict[str, float] = {}  # until when a place is left alone, by the clock
        self._is_kept = True  # whether there may be a file of what is missing
        self._is_lost = False  # whether that file lacks some of it
        self.flush()

    @property
    def is_away(self) -> bool:
        """Whether the store has just not answered, and is left alone for now."""
        return self._is_quiet(STORE)

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

    def log_metrics(self, metrics: Mapping[str, float], step: int) -> None:
        """Write the metrics of a round (`step`), each only if the run has no value of it at that step.

        Values that are not finite are left out, with a warning.
        """
        finite = {legal_name(name): float(value) for name, value in metrics.items() if math.isfinite(value)}
        if len(finite) < len(metrics):
            names = sorted(name for name, value in metrics.items() if not math.isfinite(value))
            logger.warning("step %d: %s not finite, not written", step, ", ".join(names))
        if finite:
            self._write({"kind": "metrics", "step": step, "time_ms": int(time.time() * 1000), "values": finite})

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

    def log_model(self, model_id: str) -> None:
        """Name a logged model as an input of the run, by which its page shows the run."""
        self._write({"kind": "model", "id": model_id})

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
        self._until.clear()
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

    def _missed(self) -> list[Entry]:
        """Return what an earlier attempt of this root run could not write, but for its end, since the run goes on."""
        missed = json.loads(self.missed_path.read_text(encoding="utf-8")) if self.missed_path.is_file() else {}
        entries = missed["entries"] if missed.get("root_run") == self.root_run else []
        return [entry for entry in entries if entry["kind"] != "end"]

    def _keep(self) -> None:
        """Keep on disk what is missing, at once: the process may be killed while it waits for the store."""
        try:
            if self._backlog:
                missed = {"root_run": self.root_run, "entries": self._backlog}
                write_file(self.missed_path, json.dumps(missed, indent=1, ensure_ascii=False))
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
            if STORE in self._failures and not self._attempt("probe", lambda: check_reachable(self.tracking_uri)):
                return
            if self._writer is None:
                self._attempt("open", self._open)
            if (writer := self._writer) is None:
                return
            waiting, self._backlog = self._backlog, []
            for entry in waiting:
                kind = entry["kind"]
                if self._is_quiet(_place(kind)) or not self._attempt(kind, lambda entry=entry: writer.write(entry)):
                    self._backlog.append(entry)

    def _attempt(self, kind: str, call: Callable[[], None]) -> bool:
        """Call and return whether it worked. The first failure of a kind is warned of; a place that fails is paused."""
        try:
            call()
        except Exception as cause:  # whatever MLflow, a driver or the network throws must not stop training
            refused = isinstance(cause, MlflowException) and cause.error_code in REFUSALS
            if not refused or kind == "open":
                place = _place(kind)
                times = self._failures[place] = self._failures.get(place, 0) + 1
                pause = min(PAUSE_SECONDS * 2 ** min(times - 1, 20), LONGEST_PAUSE_SECONDS)
                self._until[place] = time.monotonic() + pause
            if kind not in self._warned and kind != "probe":  # what made it necessary has been told
                self._warned.add(kind)
                # MLflow goes on with the connection's own words, which name Python's objects.
                text = f"{type(cause).__name__}: {cause}".split(" with exception ")[0]
                text = SAID["disk"] if shortage_of(cause) == "disk" else text
                reason = short(text, self.tracking_uri)
                logger.warning("tracking (%s) failed and is tried again later; training goes on. %s", kind, reason)
            return False
        if kind != "probe":  # a server that answers may still have a database that does not
            self._failures.pop(_place(kind), None)
        return True

    def _is_quiet(self, place: str) -> bool:
        """Return whether a place is left alone for now; while the store is, all are."""
        now = time.monotonic()
        return any(now < self._until.get(each, 0.0) for each in (place, STORE))

    def _open(self) -> None:
        """Find or make experiment and run. Raises what MLflow, a driver or the network throws."""
        check_reachable(self.tracking_uri)
        client = MlflowClient(tracking_uri=self.tracking_uri)
        experiment_id = self._experiment(client)
        found = client.search_runs([experiment_id], f"tags.`{ROOT_RUN_TAG}` = '{self.root_run}'", max_results=1)
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
                return client.create_experiment(
                    self.experiment, artifact_location=self.artifact_location, tags={DESCRIPTION: _NOTE}
                )
            except MlflowException as cause:
                if (found := active_experiment(client, self.experiment)) is None:
                    raise cause
        return found.experiment_id


def _place(kind: str) -> str:
    """Return where entries of a kind go. Artifacts go elsewhere: a bucket that is away does not hold up the curves."""
    return "artifacts" if kind == "text" else STORE


IDENTITY = "identity"


def noted_code(address: str, run_id: str | None) -> dict[str, Any]:
    """Return what the newest attempt at a run noted of its code (`mlops.runs.identity.identity_facts`).

    It is empty where nothing is noted, or MLflow does not answer: a page can do without it.
    """
    if run_id is None:
        return {}
    client = MlflowClient(tracking_uri=address)
    try:
        with answering(address), tempfile.TemporaryDirectory() as folder:
            noted = [file.path for file in client.list_artifacts(run_id, IDENTITY)]
            if not noted:
                return {}
            newest = max(noted, key=lambda path: int("0" + "".join(re.findall(r"\d+", Path(path).name))))
            return json.loads(Path(client.download_artifacts(run_id, newest, folder)).read_text("utf-8"))
    except TrackerError:
        return {}


def log_warm_start(tracker: Tracker, report: SftReport) -> None:
    """Log loss, learning rate and gradient norm of each step of the warm start."""
    curves = {"loss": report.losses, "learning_rate": report.learning_rates, "grad_norm": report.grad_norms}
    tracker.log_curves({f"sft/{name}": curve for name, curve in curves.items()})


def log_control(tracker: Tracker, name: str, report: ControlReport | PromptReport) -> None:
    """Log the report of the control of this name, its losses, and what it spent: FLOPs of its budget, or tokens."""
    tracker.log_json(f"controls/{name}.json", dataclasses.asdict(report))
    spent = {"flops": report.spent, "budget_flops": report.budget, "seconds": report.seconds}
    spent |= {key: getattr(report, key, None) for key in ("prompt_tokens", "completion_tokens")}
    known = {f"{name}_control/{key}": float(value) for key, value in spent.items() if value is not None}
    tracker.log_metrics(known, step=0)
    tracker.log_curves({f"{name}_control/loss": list(getattr(report, "losses", ()))})
