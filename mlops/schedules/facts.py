"""Finds what the reasons of a schedule are about: its tasks, files, aliases, and the champion's version."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from mlops.home.folder import Home
from mlops.schedules.reasons import Facts, Score
from mlops.schedules.settings import ScoreBelow, overrides_of
from mlops.schedules.store import Stored
from mlops.tracking.address import HOME, VARIABLE
from rlft.config import Config
from rlft.config.file import load_config
from rlft.errors import ConfigError, RlftError
from rlft.evaluation.gates import digest
from rlft.evaluation.model_names import parse_model
from rlft.files import file_hash

ABSENT = "absent"


def look(home: Home, stored: Stored) -> Facts:
    """Find what the reasons of a schedule are about, but for a score, in the working directory that it was applied in.

    Raises RlftError if tasks, config or tracker cannot be read.
    """
    when, tasks, values = stored.schedule.when, frozenset[str](), dict[str, str]()
    if when.new_tasks is not None:
        tasks = _train_tasks(home, stored)
    if when.changed is not None:
        values = {f"file {path}": file_hash(path) if Path(path).exists() else ABSENT for path in when.changed.files}
        values |= {f"alias {alias}": _version_of(home, stored, alias) for alias in when.changed.aliases}
    return Facts(tasks, values)


def _config_of(stored: Stored) -> Config:
    return load_config(Path(stored.schedule.config), overrides_of(stored.schedule))


def _train_tasks(home: Home, stored: Stored) -> frozenset[str]:
    """Return a fingerprint of the content of every train task that a run would have, wherever it stands in its source.

    A question from use has the same one whichever trace asks it.
    """
    from rlft.tasks import ingest_tasks
    from rlft.tasks.splits import TRACE

    config, use = _config_of(stored), None
    if config.tasks.use is not None and (address := _address(home, stored)):
        from mlops.runs.use import fetch_use
        from rlft.training.demonstration_file import shown_texts

        where = HOME if stored.schedule.stack is None else address
        use = fetch_use(config.tasks.use, where, shown_texts(config.warm_start))
    found = ingest_tasks(config.tasks, environment=config.environment.name, seed=config.tasks.seed, use=use)
    return frozenset(
        digest(
            [
                list(task.prompt),
                task.answer,
                {key: value for key, value in task.info.items() if key != TRACE},
            ]
        )
        for task in found.split("train")
    )


def _address(home: Home, stored: Stored) -> str:
    """Return the address of the MLflow that the runs use; empty if the home has had none yet."""
    if stored.schedule.stack is not None:
        from mlops.stacks.stack import connect

        return connect(home, stored.schedule.stack)
    if not (home.root / "mlflow.db").is_file():
        return ""
    os.environ["MLFLOW_TRACKING_URI"] = os.environ[VARIABLE] = home.tracking_uri
    return home.tracking_uri


def _version_of(home: Home, stored: Stored, alias: str) -> str:
    if not (address := _address(home, stored)):
        return ABSENT
    from mlops.registry.client import RegistryClient, unless_absent
    from mlops.tracking.address import answering

    named = parse_model(alias)
    with answering(address):
        model = unless_absent(lambda: RegistryClient(address).get_registered_model(named.name))
    return str(model.aliases.get(named.alias, ABSENT)) if model else ABSENT


class Asked(NamedTuple):
    """The score that is asked for: of this version, at this cell of the suite, by this metric.

    `key` is the same exactly if the version, the suite, its tasks and the bound are.
    """

    model: str
    cell: str
    metric: str
    key: str


def asked_score(home: Home, stored: Stored, asked: ScoreBelow) -> Asked | None:
    """Return whose score is asked for, and by which tasks; `None` if there is no champion.

    Raises RlftError if tasks, config, suite or tracker cannot be read.
    """
    from rlft.config.file import load_suite
    from rlft.tasks import ingest_tasks

    suite, name = load_suite(Path(asked.suite)), _config_of(stored).registry_name
    cells = [cell for cell in suite.cells() if asked.scenario in (None, cell.scenario) and "test" in cell.splits]
    if len({cell.scenario for cell in cells}) != 1:
        said = "the suite has several scenarios" if cells else "the suite has no such scenario with a split test"
        fix = f"name one of {', '.join(suite.scenarios)}"
        raise ConfigError(said, where="when.score_below.scenario", fix=fix)
    if (number := _version_of(home, stored, f"models:/{name}@champion")) == ABSENT:
        return None
    cell, model = cells[0], f"models:/{name}/{number}"
    tasks = ingest_tasks(cell.tasks, environment=cell.environment.name, seed=cell.tasks.seed)
    key = digest([model, suite.model_dump(mode="json"), tasks.fingerprint, asked.bound])
    return Asked(model, cell.name, suite.main_metric, key)


def score_in(summary: dict[str, Any], asked: Asked) -> Score:
    """Return the score in the summary of an evaluation of one model. Raises RlftError if no attempt has a score."""
    [measured] = summary["scenarios"][asked.cell].values()
    of_split = measured["splits"].get("test", {})
    metric = of_split.get("metrics", {}).get(asked.metric)
    if metric is None:
        fix = "`rlft evaluate` with the same suite says why"
        raise RlftError(f"no attempt of {asked.model} has a score", where="when.score_below", fix=fix)
    return Score(
        asked.model,
        *(metric[name] for name in ("mean", "low", "high")),
        tasks=of_split["tasks"],
        groups=metric.get("effective_groups", 0.0),
        errors=sum(of_split.get("errors", {}).values()) / max(of_split.get("attempts", 0), 1),
    )
