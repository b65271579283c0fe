"""Finds what the reasons of a schedule are about: its tasks, files, data sets, aliases, and the champion's version."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mlops.home.folder import Home
from mlops.schedules.store import Stored
from mlops.tracking.address import HOME, VARIABLE
from rlft.config import Config
from rlft.config.file import load_config
from rlft.errors import ConfigError, RlftError
from rlft.files import file_hash, why_no_file
from rlft.gates.identity import canonical_json, digest
from rlft.schedule.reasons import Facts, Score
from rlft.schedule.settings import ScoreBelow, overrides_of
from rlft.tasks.from_use import TRACE, is_from_use
from rlft.types import Task

if TYPE_CHECKING:
    from rlft.tasks.use import Use

ABSENT = "absent"


class Look(NamedTuple):
    """What a look found: the facts, and of the score that is asked for the version, the cell and the metric.

    `model` is empty if there is no such version, and `missing` then says why in a sentence.
    """

    facts: Facts
    model: str = ""
    cell: str = ""
    metric: str = ""
    score_key: str = ""
    missing: str = ""


def look(home: Home, stored: Stored) -> Look:
    """Find what the reasons of a schedule are about, in the working directory that it was applied in.

    Raises RlftError if tasks, config, suite or tracker cannot be read.
    """
    when = stored.schedule.when
    tasks = _train_tasks(home, stored) if when.new_tasks is not None else frozenset[str]()
    values: dict[str, str] = {}
    if when.changed is not None:
        values = {f"file {path}": _content_of(Path(path)) for path in when.changed.files}
    if when.score_below is None and (when.changed is None or not (when.changed.datasets or when.changed.aliases)):
        return Look(Facts(tasks, values))
    address = _address(home, stored)
    if when.changed is not None:
        values |= {f"data set {name}": _records_of(address, name) for name in when.changed.datasets}
        values |= {f"alias {alias}": _version_of(address, alias) for alias in when.changed.aliases}
    facts = Facts(tasks, values)
    return Look(facts) if when.score_below is None else _scored(address, stored, when.score_below, facts)


def _train_tasks(home: Home, stored: Stored) -> frozenset[str]:
    """Return a fingerprint of the content of every train task that a run would have, wherever it stands in its source.

    A question from use has the same one whichever trace asks it.
    """
    from rlft.tasks import ingest_tasks

    config = load_config(Path(stored.schedule.config), overrides_of(stored.schedule))
    use = _use(home, stored, config)
    found = ingest_tasks(config.tasks, environment=config.environment.name, seed=config.tasks.seed, use=use)
    return frozenset(digest([list(task.prompt), task.answer, _info(task)]) for task in found.split("train"))


def _use(home: Home, stored: Stored, config: Config) -> Use | None:
    """Return what people asked, if the config takes tasks from use and the home has an MLflow by now."""
    if config.tasks.use is None or not (address := _address(home, stored)):
        return None
    from mlops.serving.use import fetch_use
    from rlft.sft.overlap import shown_texts

    return fetch_use(
        config.tasks.use,
        HOME if stored.schedule.stack is None else address,
        config.registry_name,
        shown_texts(config.warm_start),
    )


def _info(task: Task) -> dict[str, Any]:
    return {key: value for key, value in task.info.items() if key != TRACE or not is_from_use(task)}


def _content_of(path: Path) -> str:
    fix = "make it a file that this user can read, or take it out of when.changed.files"
    try:
        if path.exists() and (problem := why_no_file(path)):  # a pipe would be waited for
            raise ConfigError(problem, where=str(path), fix=fix)
        return file_hash(path)
    except FileNotFoundError:
        return ABSENT
    except OSError as cause:
        raise ConfigError(f"cannot be read: {cause.strerror}", where=str(path), fix=fix) from cause


def _address(home: Home, stored: Stored) -> str:
    """Return the address of the MLflow that the runs use; empty if the home has had none yet."""
    if stored.schedule.stack is not None:
        from mlops.stacks.stack import connect

        return connect(home, stored.schedule.stack)
    if not (home.root / "mlflow.db").is_file():
        return ""
    os.environ["MLFLOW_TRACKING_URI"] = os.environ[VARIABLE] = home.tracking_uri
    return home.tracking_uri


def _records_of(address: str, name: str) -> str:
    """Return a fingerprint of the records of an MLflow data set, in any order."""
    if not address:
        return ABSENT
    from mlflow.exceptions import MlflowException
    from mlflow.genai.datasets import search_datasets

    from mlops.tracking.address import answering

    with answering(address):
        there = [found for found in search_datasets() if found.name == name]
        try:
            rows = [row for found in there for row in found.to_df().to_dict(orient="records")]
        except MlflowException as cause:  # it was removed meanwhile
            raise ConfigError(f"cannot be read: {cause.message}", where=f"data set {name}", fix="look again") from cause
    if not there:
        return ABSENT
    texts = sorted(canonical_json(json.loads(json.dumps(_own(row), default=str))) for row in rows)
    return hashlib.sha256("\n".join(texts).encode(errors="surrogatepass")).hexdigest()


def _own(row: dict[str, Any]) -> dict[str, Any]:
    """Return what a record is about, without ids, times and who has written it."""
    return {key: row.get(key) for key in ("inputs", "outputs", "expectations")}


def _version_of(address: str, alias: str) -> str:
    from rlft.suites.models import parse_model

    named = parse_model(alias)
    if not address:
        return ABSENT
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    from mlops.registry.names import ABSENT as NOT_THERE
    from mlops.tracking.address import answering

    with answering(address):
        try:
            model = MlflowClient(tracking_uri=address, registry_uri=address).get_registered_model(named.name)
        except MlflowException as cause:
            if cause.error_code not in NOT_THERE:
                raise
            return ABSENT
    return str(model.aliases.get(named.alias, ABSENT))


def _scored(address: str, stored: Stored, asked: ScoreBelow, facts: Facts) -> Look:
    """Return the look with the version whose score is asked for, and by which tasks."""
    from rlft.config.suite_file import load_suite
    from rlft.suites.models import parse_model
    from rlft.tasks import ingest_tasks

    config = load_config(Path(stored.schedule.config), overrides_of(stored.schedule))
    text = asked.model or f"models:/{config.promotion.name or config.name}@champion"
    suite = load_suite(Path(asked.suite))
    where = "when.score_below"
    cells = [cell for cell in suite.cells() if asked.scenario in (None, cell.scenario)]
    if not cells or (asked.scenario is None and len({cell.scenario for cell in cells}) > 1):
        raise ConfigError(
            "the suite has no such scenario" if not cells else "the suite has several scenarios",
            where=f"{where}.scenario",
            fix=f"name one of {', '.join(suite.scenarios)}",
        )
    cell = cells[0]
    if asked.split not in cell.splits:
        fix = f"name one of {', '.join(cell.splits)}"
        raise ConfigError(f"the scenario {cell.scenario} has no split {asked.split}", where=f"{where}.split", fix=fix)
    named = parse_model(text)
    number = named.version or (_version_of(address, text) if named.alias else "")
    if number == ABSENT:
        return Look(facts, missing=f"there is no {text}, whose score could be low")
    tasks = ingest_tasks(cell.tasks, environment=cell.environment.name, seed=cell.tasks.seed)
    key = digest([named.name, number, suite.model_dump(mode="json"), tasks.fingerprint, asked.split])
    return Look(facts, f"models:/{named.name}/{number}", cell.name, suite.main_metric, key)


def score_in(summary: dict[str, Any], found: Look, split: str) -> Score:
    """Return the score in the summary of an evaluation of one model.

    Raises RlftError if no attempt has a score.
    """
    [measured] = summary["scenarios"][found.cell].values()
    of_split = measured["splits"].get(split, {})
    metric = of_split.get("metrics", {}).get(found.metric)
    if metric is None:
        fix = "`rlft evaluate` with the same suite says why"
        raise RlftError(f"no attempt of {found.model} on {split} has a score", where="when.score_below", fix=fix)
    return Score(
        found.score_key,
        found.model,
        *(metric[name] for name in ("mean", "low", "high")),
        tasks=of_split["tasks"],
        groups=metric.get("effective_groups", 0.0),
        errors=sum(of_split.get("errors", {}).values()) / max(of_split.get("attempts", 0), 1),
        top=1.0 if found.metric == "accuracy" else None,
    )
