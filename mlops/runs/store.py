"""The runs of a home as plain files, which commands read that import neither ZenML nor MLflow; checking artifacts.

Each run has a folder, `runs/NAME/`, that is written as the run goes, every file whole or not at all:

- `run.json`: what it is, with what it was begun, and its attempts, the oldest first
- `config.yaml`: its settings, if it has some
- `summary.json`: what it has come to (`mlops.summary`)
- `artifacts.json`: its steps, with the place of each artifact and size and sha256 of its files
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from mlops.home.folder import Home
from mlops.ids import AUDIT, EVALUATION, REWARDS, ROLLOUTS, TASKS, TRAIN_REPORT, Stored
from mlops.summary.file import read_result, read_summary
from mlops.summary.summary import Summary
from rlft.config import Config
from rlft.config.file import apply_override, check_config
from rlft.config.yaml_text import read_yaml, write_yaml
from rlft.errors import ConfigError, DamagedError, FormatVersionError, RlftError
from rlft.files import Seal, write_file
from rlft.types.formats import CONFIG, KEY, RUN

RUN_FILE, CONFIG_FILE, ARTIFACTS_FILE = "run.json", "config.yaml", "artifacts.json"


@dataclass
class LocalRun:
    """A run of a home by its folder; `facts` is what `run.json` holds."""

    home: Home
    folder: Path
    facts: dict[str, Any]

    @property
    def name(self) -> str:
        """What a person calls it."""
        return self.facts["name"]

    @property
    def pipeline(self) -> str:
        """The pipeline that it is of."""
        return self.facts["pipeline"]

    @property
    def parameters(self) -> dict[str, Any]:
        """What its pipeline was begun with; its settings are `config`."""
        return self.facts["parameters"]

    @property
    def attempts(self) -> list[dict[str, Any]]:
        """The attempts at it, the newest first."""
        return self.facts["attempts"][::-1]

    @property
    def id(self) -> str:
        """ZenML's id of the newest attempt."""
        return self.attempts[0]["id"]

    @property
    def began(self) -> datetime:
        """When its first attempt began, in UTC."""
        return datetime.fromisoformat(self.facts["attempts"][0]["began"])

    @property
    def keys(self) -> list[str]:
        """All that it can be called by: its name, and id and name of each attempt."""
        return [self.name, *(each[key] for each in self.attempts for key in ("id", "name"))]

    @cached_property
    def config(self) -> dict[str, Any]:
        """Its settings, as `as_parameter` makes them; empty if it has none."""
        file = self.folder / CONFIG_FILE
        try:
            return read_yaml(file.read_text(encoding="utf-8")) or {}
        except FileNotFoundError:
            return {}
        except ValueError as cause:
            raise DamagedError(f"this file cannot be read: {cause}", where=str(file), run=self.name) from cause

    @cached_property
    def steps(self) -> dict[str, Any]:
        """Its steps by their ids, as `artifacts.json` has them."""
        found = _read(self.folder / ARTIFACTS_FILE)
        return found["steps"] if found else {}

    def output(self, stored: Stored, name: str) -> Any:
        """Return what a step stored at the call of this name; `None` if there is no such call or it has not ended.

        What a replay has taken from the run that it is made of counts as its own. Raises DamagedError, which names the
        file and the run, if it is not what was stored or cannot be read, and FormatVersionError for a format that is
        not read.
        """
        step = stored.step_id(name)
        places = [(step, "outputs"), *((each, "inputs") for each in stored.readers(name))]
        known = (self.steps.get(place, {}).get(made, {}).get(stored.output) for place, made in places)
        if (artifact := next(filter(None, known), None)) is None:
            return None
        seal, file = self.seal(artifact, step), self.home.root / artifact["place"] / stored.file
        try:
            content = file.read_bytes()
            seal.check_bytes(stored.file, content)
            return parse_output(stored, content)
        except FormatVersionError as other:
            raise other.at(str(file)) from other
        except (FileNotFoundError, NotADirectoryError) as cause:
            raise seal.damage(stored.file, "this file is gone") from cause
        except RlftError:
            raise
        except Exception as cause:  # whatever pyarrow, json or pydantic make of bytes that are none of theirs
            raise seal.damage(stored.file, f"this file cannot be read: {type(cause).__name__}: {cause}") from cause

    def noted_of_step(self, stored: Stored, name: str, key: str) -> str:
        """Return what a step of this call was given as `environment_fingerprint` or `reward_fingerprint`, if it was."""
        return self.steps.get(stored.step_id(name), {}).get(key, "")

    def step_ids(self, begin: str) -> list[str]:
        """Return the ids of its steps that begin so, in the order in which they were run."""
        return sorted(
            (each for each in self.steps if each.startswith(begin)), key=lambda each: self.steps[each]["began"]
        )

    def sibling(self, asked: str) -> LocalRun:
        """Return another run of the home. Raises RlftError if there is none of this name."""
        found = RunStore(self.home).called(asked)
        if found is None:
            raise RlftError(f"no run is called {asked!r}", where="RUN", fix="`rlft runs` lists them")
        return found

    def summary(self) -> Summary | None:
        """Return its summary; `None` if it has left none, or is none that trains. Raises FormatVersionError."""
        return read_summary(self.folder)

    def status(self) -> str:
        """Return the status in its summary; `unknown` if it has none."""
        return (read_result(self.folder) or {}).get("status", "unknown")

    def code(self) -> dict[str, Any]:
        """Return what the newest attempt has noted of its code (`mlops.runs.identity.identity_facts`)."""
        return next((each["code"] for each in self.attempts if "code" in each), {})

    def seal(self, artifact: Mapping[str, Any], step: str) -> Seal:
        """Return size and sha256 of the files of an artifact that this step has stored."""
        return Seal(str(self.home.root / artifact["place"]), artifact["files"], self.name, step)

    def damages(self, artifact: Mapping[str, Any], step: str) -> list[DamagedError]:
        """Return what is damaged of an artifact that this step has stored. All its files are read."""
        seal, place = self.seal(artifact, step), self.home.root / artifact["place"]
        if not place.is_dir():
            return [DamagedError("this artifact is gone", where=str(place), run=self.name, step=step)]
        return list(seal.damages(place))

    def artifacts(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each artifact that it has made, with the id of the step."""
        for step, known in self.steps.items():
            for artifact in known["outputs"].values():
                yield step, artifact

    def places(self) -> set[Path]:
        """Return the folders of all artifacts that it has made or used."""
        tables = (known.get(kind, {}) for known in self.steps.values() for kind in ("outputs", "inputs"))
        return {self.home.root / each["place"] for table in tables for each in table.values()}

    def keep(self) -> None:
        """Write `run.json`. Raises OSError."""
        write_file(self.folder / RUN_FILE, json.dumps({KEY: RUN.version, **self.facts}, indent=1, default=str))

    def keep_steps(self, steps: dict[str, Any]) -> None:
        """Write `artifacts.json`. Raises OSError."""
        write_file(self.folder / ARTIFACTS_FILE, json.dumps({KEY: RUN.version, "steps": steps}, indent=1))
        self.steps = steps

    def attempt(self, run_id: str) -> dict[str, Any]:
        """Return the attempt of this id, whose facts can be changed before `keep`."""
        return next(each for each in self.facts["attempts"] if each["id"] == run_id)


@dataclass(frozen=True, slots=True)
class RunStore:
    """All runs of a home that are not on a stack; `problems` are sentences about those that cannot be read."""

    home: Home
    problems: list[str] = field(default_factory=list)

    def start(self, run: Any, name: str) -> LocalRun:
        """Make the folder of a run that begins, or note another attempt at it; `run` is ZenML's. Raises OSError."""
        folder = self.folder(name)
        parameters = dict(run.config.parameters or {})
        config = parameters.pop("config", None)
        known = _read(folder / RUN_FILE) or {"name": name, "attempts": []}
        began = (run.start_time or run.created).replace(tzinfo=UTC).isoformat()
        attempt = {"id": str(run.id), "name": run.name, "began": began, "ended": None, "status": "running"}
        others = [each for each in known["attempts"] if each["id"] != attempt["id"]]
        facts = known | {"pipeline": run.pipeline.name, "parameters": parameters, "attempts": [*others, attempt]}
        started = LocalRun(self.home, folder, facts)
        if config is not None:
            write_file(folder / CONFIG_FILE, write_yaml(config))
        started.keep()
        return started

    def note(self, name: str, run_id: str, **facts: Any) -> None:
        """Note facts of an attempt at the run of this name, if there is such a run. Raises OSError."""
        run = self.called(name)
        if run is not None and any(each["id"] == run_id for each in run.attempts):
            run.attempt(run_id).update(facts)
            run.keep()

    def end(self, name: str, run_id: str, status: str, ended: datetime | None = None, **facts: Any) -> None:
        """Note how an attempt has ended: `completed` or `failed`. Raises OSError."""
        self.note(name, run_id, status=status, ended=(ended or datetime.now(UTC)).isoformat(), **facts)

    def folder(self, name: str) -> Path:
        """Return the folder of the run of this name."""
        return self.home.run_folder(name)

    def called(self, name: str) -> LocalRun | None:
        """Return the run of exactly this name; `None` if there is none, or none that can be read."""
        folder = self.folder(name)
        try:
            facts = _read(folder / RUN_FILE)
        except FormatVersionError as other:
            self.problems.append(not_shown(other))
            return None
        except (ValueError, OSError) as cause:
            self.problems.append(f"{folder / RUN_FILE}: it cannot be read, and the run is not shown: {cause}")
            return None
        return facts and LocalRun(self.home, folder, facts)

    def runs(self) -> list[LocalRun]:
        """Return all runs, the newest first."""
        found = [self.called(file.parent.name) for file in (self.home.root / "runs").glob(f"*/{RUN_FILE}")]
        return sorted((run for run in found if run), key=lambda run: run.began, reverse=True)

    def matching(self, asked: str) -> list[LocalRun]:
        """Return the runs that a name, the id or name of an attempt, or the beginning of either means.

        An exact one comes first.
        """
        if asked and "/" not in asked and (run := self.called(asked)):
            return [run]
        runs = self.runs()
        exact = [run for run in runs if asked in run.keys]
        return exact or [run for run in runs if any(key.startswith(asked) for key in run.keys)]


def not_shown(other: FormatVersionError) -> str:
    """Return the sentence about what another rlft has stored of a run."""
    return f"{other.where}: {other.what}. Its results are not shown: {other.fix}"


def _read(file: Path) -> Any:
    """Return what a file of a run holds; `None` if it is not there. Raises FormatVersionError, ValueError, OSError."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    if not isinstance(found, dict):
        raise ValueError("it holds no facts")
    RUN.check(found.pop(KEY, None), where=str(file))
    return found


def parse_output(stored: Stored, content: bytes) -> Any:
    """Return what the bytes of a stored file mean. Raises FormatVersionError, and what parsers make of other bytes."""
    from rlft.types import Evaluation, TrainReport, storage

    match stored.output:
        case ROLLOUTS.output:
            return storage.rollouts_from_table(storage.table_of(content))
        case REWARDS.output:
            return storage.rewards_from_table(storage.table_of(content))
        case TASKS.output:
            return storage.tasks_from_table(storage.table_of(content))
        case TRAIN_REPORT.output:
            return storage.report_of(content, TrainReport)
        case EVALUATION.output:
            return storage.report_of(content, Evaluation)
        case AUDIT.output:
            from rlft.rewards.audit.report import AuditReport

            return storage.report_of(content, AuditReport)
    raise ValueError(f"{stored.output} is read through ZenML alone")


def as_parameter(config: Config) -> dict[str, Any]:
    """Return a config as it is stored with a run."""
    return {KEY: CONFIG.version, **config.model_dump(mode="json")}


def stored_settings(parameter: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the settings that are stored with the run `where`.

    Raises FormatVersionError for a format that is not read.
    """
    settings = copy.deepcopy(dict(parameter))
    CONFIG.check(settings.pop(KEY, None), where=where)
    return settings


def stored_config(parameter: Mapping[str, Any], where: str, overrides: Sequence[str] = ()) -> Config:
    """Return the config that is stored with the run `where`, with these changes, such as `promotion.looks=1`.

    Raises FormatVersionError for a format that is not read, and ConfigError if an rlft that had other settings stored
    it, or for an override.
    """
    settings = stored_settings(parameter, where)
    for override in overrides:
        apply_override(settings, override)
    try:
        return check_config(settings, where=where)
    except ConfigError as cause:
        if overrides:
            raise
        raise ConfigError(
            f"this run was begun with an rlft that had other settings: {cause.what}",
            where=where,
            fix="use that rlft for it, or begin a new run with `rlft run`",
        ) from cause
