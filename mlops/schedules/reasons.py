"""Whether there is a reason to run: what is now is compared with what was when the last run of the schedule began."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from mlops.home.folder import Home
from mlops.schedules.settings import WhenConfig, overrides_of
from mlops.schedules.store import Facts, Stored
from mlops.tracking.address import HOME, VARIABLE
from rlft.config.file import load_config
from rlft.evaluation.gates import digest
from rlft.evaluation.model_names import parse_model
from rlft.files import file_hash

ABSENT = "absent"


class Reason(NamedTuple):
    """Whether there is one, and in a sentence which, or why there is none."""

    found: bool
    sentence: str


def should_run(when: WhenConfig, now: Facts, last: Facts | None) -> Reason:
    """Return the reason to run; `last` is what was when the schedule's last run began, `None` if it has had none."""
    if when.is_always:
        return Reason(True, "it runs at every due time")
    if last is None:
        return Reason(True, "this schedule has not run before")
    said: list[str] = []
    if when.new_tasks is not None:
        count, least = len(now.tasks - last.tasks), when.new_tasks.at_least
        told = f"{count or 'no'} new train task{'s' * (count != 1)} since the last run"
        if count >= least:
            return Reason(True, told)
        said.append(f"{told}, and at_least is {least}" if count else told)
    if when.changed is not None:
        # What was added to the schedule's file meanwhile has no value of before, and is no change.
        if changed := [name for name, value in now.values.items() if last.values.get(name, value) != value]:
            return Reason(True, f"{' and '.join(changed)} changed since the last run")
        said.append(f"{', '.join(now.values)} {'is' if len(now.values) == 1 else 'are'} as at the last run")
    return Reason(False, "; ".join(said))


def look(home: Home, stored: Stored) -> Facts:
    """Find what the reasons of a schedule are about, in the working directory that it was applied in.

    Raises RlftError if tasks, config or tracker cannot be read.
    """
    when, tasks, values = stored.schedule.when, frozenset[str](), dict[str, str]()
    if when.new_tasks is not None:
        tasks = _train_tasks(home, stored)
    if when.changed is not None:
        values = {f"file {path}": file_hash(path) if Path(path).exists() else ABSENT for path in when.changed.files}
        values |= {f"alias {alias}": _version_of(home, stored, alias) for alias in when.changed.aliases}
    return Facts(tasks, values)


def _train_tasks(home: Home, stored: Stored) -> frozenset[str]:
    """Return a fingerprint of the content of every train task that a run would have, wherever it stands in its source.

    A question from use has the same one whichever trace asks it.
    """
    from rlft.tasks import ingest_tasks
    from rlft.tasks.splits import TRACE

    config, use = load_config(Path(stored.schedule.config), overrides_of(stored.schedule)), None
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
