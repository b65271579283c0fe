"""Makes the `TaskSet` of the config's `tasks` section: reads rows, makes tasks, splits them and drops duplicates.

Also makes one of another: without the tasks that a model cannot read, or of the tasks of a past run, found again among
those that were read anew.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rlft.config import SourceConfig, TasksConfig
from rlft.errors import TaskError
from rlft.evaluation.gates import canonical_json
from rlft.progress import Meter, Progress, silent
from rlft.tasks.reasoning_gym import Drawn, draw_tasks, second_seed
from rlft.tasks.rows import FieldError, check_template, make_task, own_split, split_column_decides
from rlft.tasks.sources import BadRow, BadRows, RawRow, Reading, describe_source, read_rows
from rlft.tasks.splits import (
    DEALT_SPLITS,
    check_apart,
    check_groups,
    check_splits,
    deal_tasks,
    drop_duplicates,
    order_by_hash,
)
from rlft.types import SPLITS, Split, Task, TaskSet

if TYPE_CHECKING:
    from rlft.tasks.use import Use

logger = logging.getLogger(__name__)


def ingest_tasks(
    config: TasksConfig, *, environment: str, seed: int, progress: Progress = silent, use: Use | None = None
) -> TaskSet:
    """Read and split the tasks of a config; `environment` is written into every task and enters its id.

    `use` holds the records of `config.use`. Without it there are no tasks from use, which decides about no other task.

    Tasks come in the order of `SPLITS`. The `notes` (JSON) hold `rows_per_split` and, for each source (`tasks` and
    `off_distribution`), what it is, how it was split, its bad rows, and the numbers of dropped duplicates and of tasks
    without an answer; under `use` what became of every record (`rlft.tasks.use`). Raises `TaskError` if a source
    cannot be read, has more bad rows than `max_bad_rows`, or leaves a split empty.

    The tasks of several environments are read one environment after the other, each with the seed of its own section.
    Each carries the name of its environment, and so do its id and its group: `NAME/id`. The notes have those of each
    under `environments`. Raises `TaskError` for a prompt that two environments have in different splits.
    """
    if config.members is not None:
        return _ingest_members(config.members, progress)
    reading = Reading(environment, BadRows(config.max_bad_rows), progress=progress)
    tasks, note = _ingest_main(config, seed, reading)
    notes = {"tasks": note}
    if config.off_distribution is not None:
        seen = len(reading.bad.rows)
        others, note = _ingest_off_distribution(config.off_distribution, config.off_distribution_count, seed, reading)
        notes["off_distribution"] = note | {"bad_rows": _as_notes(reading.bad.rows[seen:])}
        tasks = tasks + others
    if config.use is not None and use is not None:
        from rlft.tasks.use import take_from_use  # it needs scipy, which the check of a file does not

        taken, notes["use"] = take_from_use(use, config.use, tasks, reading.claims, environment=environment)
        tasks = tasks + taken
    check_groups(tasks, describe_source(config))
    return _task_set(tasks, notes)


def read_tasks(source: SourceConfig, *, environment: str, progress: Progress = silent) -> tuple[Task, ...]:
    """Return all tasks of a file or data set without duplicates, to try an environment on.

    They are in `train` unless the source's own `split` column decides. Raises `TaskError` if the source cannot be read
    or has a bad row.
    """
    reading = Reading(environment, BadRows(limit=0), progress=progress)
    tasks, _ = _read(source, "tasks", reading, own_splits=True)
    return tuple(drop_duplicates(tasks, reading.claims))


def _task_set(tasks: Iterable[Task], notes: dict[str, Any]) -> TaskSet:
    """Return tasks as a set, in the order of `SPLITS`; the notes get `rows_per_split`."""
    ordered = tuple(sorted(tasks, key=lambda task: SPLITS.index(task.split)))
    counts = Counter(task.split for task in ordered)
    notes = notes | {"rows_per_split": {name: counts[name] for name in SPLITS if counts[name]}}
    return TaskSet(tasks=ordered, fingerprint=fingerprint_tasks(ordered), notes=notes)


def _ingest_members(members: Mapping[str, TasksConfig], progress: Progress) -> TaskSet:
    """Return the tasks of several environments as one set."""
    found = {
        name: ingest_tasks(own, environment=name, seed=own.seed, progress=progress) for name, own in members.items()
    }
    tasks = [
        replace(task, id=f"{name}/{task.id}", group=f"{name}/{task.group}")
        for name, own in found.items()
        for task in own.tasks
    ]
    check_apart(tasks)
    sources = {name: own.notes["tasks"] for name, own in found.items()}
    notes = {
        "tasks": {
            "source": "; ".join(f"{name}: {note['source']}" for name, note in sources.items()),
            "without_answer": sum(note["without_answer"] for note in sources.values()),
        },
        "environments": {name: own.notes for name, own in found.items()},
    }
    return _task_set(tasks, notes)


def fingerprint_tasks(tasks: Iterable[Task]) -> str:
    """Return the sha256 (hexadecimal) of the canonical JSON of all fields of all tasks, in the order given.

    The order counts, since a trainer that takes tasks in turn does something else when they are reordered.
    """
    digest = hashlib.sha256()
    for task in tasks:
        content = [
            task.id,
            task.environment,
            task.prompt,
            task.answer,
            task.info,
            task.split,
            task.group,
            task.question_key,
        ]
        digest.update(canonical_json(content).encode() + b"\n")
    return digest.hexdigest()


def _ingest_main(config: TasksConfig, seed: int, reading: Reading) -> tuple[list[Task], dict[str, Any]]:
    """Return the tasks of the main source, and the note about how they were read."""
    where = describe_source(config)
    if config.source == "reasoning_gym":
        wanted: dict[Split, int] = {name: getattr(config.splits, name) for name in DEALT_SPLITS}
        drawn = draw_tasks(config, wanted, reading, seed=seed)
        tasks, how = drawn.tasks, {"split_by": "fixed shares of a generator's questions"} | _range(drawn)
    else:
        tasks, by_column = _read(config, "tasks", reading, own_splits=True)
        if not by_column:
            tasks = deal_tasks(tasks, config.splits, seed=seed)
        how = {"split_by": "taken from the column `split`" if by_column else "dealt by group"}
        tasks = drop_duplicates(tasks, reading.claims)
        check_splits(tasks, where, by_column=by_column)
    return tasks, _note(where, how, tasks, reading) | {"bad_rows": _as_notes(reading.bad.rows)}


def _ingest_off_distribution(
    source: SourceConfig, count: int, seed: int, reading: Reading
) -> tuple[list[Task], dict[str, Any]]:
    """Tasks of another source, without those whose prompt is in another split; of a file they are a sample by hash."""
    where, how = describe_source(source), dict[str, Any]()
    if source.source == "reasoning_gym":
        drawn = draw_tasks(source, {"off_distribution": count}, reading, seed=second_seed(seed))
        tasks, how = drawn.tasks, _range(drawn)
    else:
        read, _ = _read(source, "tasks.off_distribution", reading, own_splits=False)
        tasks = drop_duplicates([replace(task, split="off_distribution") for task in read], reading.claims)
        if len(tasks) < count:
            logger.warning("%s has %d tasks, off_distribution_count is %d: all are taken", where, len(tasks), count)
        sample = {task.id for task in order_by_hash(tasks, seed=seed)[:count]}
        tasks = [task for task in tasks if task.id in sample]
    if not tasks:
        raise TaskError(
            "every off-distribution task also stands in another split",
            where=where,
            fix="name another source in tasks.off_distribution, or remove that section",
        )
    return tasks, _note(where, how, tasks, reading)


def _range(drawn: Drawn) -> dict[str, Any]:
    return {"seed": drawn.seed, "indices": [drawn.first, drawn.end], "spare": drawn.spare}


def _read(source: SourceConfig, section: str, reading: Reading, *, own_splits: bool) -> tuple[list[Task], bool]:
    """Return the tasks of all usable rows, and whether the column `split` decides, as it may with `own_splits`.

    Raises `TaskError` if too many rows are unusable.
    """
    for name in ("prompt", "answer"):
        check_template(getattr(source, name), f"{section}.{name}")
    meter, rows = Meter(reading.progress, None, "rows"), list[RawRow]()
    for row in read_rows(source):
        meter.add()
        if isinstance(row, RawRow):
            rows.append(row)
        else:
            reading.bad.rows.append(row)
    by_column = own_splits and split_column_decides(raw.row for raw in rows)
    tasks = _make_tasks(rows, source, reading, by_column=by_column)
    reading.bad.check(describe_source(source))
    without = sum(task.answer is None for task in tasks)
    if source.answer is not None and tasks and without == len(tasks):  # else the check may be code that needs none
        raise TaskError(
            f"the answer of every row is empty (null) in {source.answer!r}",
            where=describe_source(source),
            fix="name the field with the right answers in `answer` of the source, or remove that setting",
        )
    if 0 < without < len(tasks):
        logger.warning("%d of %d tasks have no answer to compare with", without, len(tasks))
    return tasks, by_column


def _make_tasks(rows: list[RawRow], source: SourceConfig, reading: Reading, *, by_column: bool) -> list[Task]:
    tasks, places = list[Task](), dict[str, str]()
    meter = Meter(reading.progress, len(rows), "tasks")
    for raw in rows:
        meter.add()
        try:
            own = own_split(raw.row) if by_column else None
            task = make_task(raw, source, environment=reading.environment, split=own)
            if source.id and (task.id in reading.claims.ids or places.setdefault(task.id, raw.place) != raw.place):
                raise FieldError(f"has the id {task.id!r} of {places.get(task.id, 'a task from the main source')}")
        except FieldError as error:
            reading.bad.rows.append(BadRow(raw.place, str(error)))
        else:
            tasks.append(task)
    return tasks


def _note(where: str, how: dict[str, Any], tasks: list[Task], reading: Reading) -> dict[str, Any]:
    without = sum(task.answer is None for task in tasks)
    return {"source": where, **how, "duplicates_dropped": reading.claims.take_dropped(), "without_answer": without}


def _as_notes(rows: Iterable[BadRow]) -> list[dict[str, str]]:
    return [{"place": row.place, "reason": row.reason} for row in rows]


def leave_out(
    tasks: TaskSet, too_long: Collection[str], unreadable: Collection[str], context_length: int | None
) -> TaskSet:
    """Return the tasks without those of these ids.

    The prompts of `too_long` fill the model's context of so many tokens, and `unreadable` ones, tasks from use, have
    characters without a token. The notes get `prompts_too_long` and `prompts_unreadable` ({split: ids}), and
    `rows_per_split` is counted again. Raises `TaskError` if a split is left without tasks.
    """
    reasons = {
        "prompts_too_long": (too_long, f"their prompts are longer than the model's context of {context_length} tokens"),
        "prompts_unreadable": (unreadable, "people used characters in them that the model's tokenizer lacks"),
    }
    unread = {*too_long, *unreadable}
    kept = [task for task in tasks.tasks if task.id not in unread]
    splits, notes = {task.split for task in kept}, dict(tasks.notes)
    for note, (ids, why) in reasons.items():
        gone = {name: [task.id for task in tasks.split(name) if task.id in ids] for name in SPLITS}
        gone = {name: found for name, found in gone.items() if found}
        if empty := [name for name in gone if name not in splits]:
            raise TaskError(
                f"no task of {', '.join(empty)} is left, as {why}",
                where="tasks.prompt",
                fix="shorten the prompts, or use a model with a longer context",
            )
        if gone:
            logger.warning(
                "%d of %d tasks are left out, as %s: %s (task_notes.json names them)",
                sum(map(len, gone.values())),
                len(tasks.tasks),
                why,
                ", ".join(f"{name} {len(found)}" for name, found in gone.items()),
            )
            notes |= {note: gone}
    return _task_set(kept, notes)


def match_tasks(stored: TaskSet, read: TaskSet) -> TaskSet:
    """Return the stored tasks as they were read now, under the ids, splits and groups that they had.

    A task is known by its id, else by what it asks (`question_key`) if one task alone asks it. Those that are gone are
    left out, and counted in the notes as `gone`. Raises TaskError if all are.
    """
    by_id, asked = read.by_id(), Counter(task.question_key for task in read.tasks)
    by_question = {
        task.question_key: task for task in read.tasks if task.question_key and asked[task.question_key] == 1
    }
    found = ((task, by_id.get(task.id) or by_question.get(task.question_key)) for task in stored.tasks)
    kept = tuple(
        replace(now, id=was.id, split=was.split, group=was.group, question_key=was.question_key)
        for was, now in found
        if now is not None
    )
    if not kept:
        raise TaskError(
            f"none of the {len(stored.tasks)} tasks of the run is among the {len(read.tasks)} of this config",
            where="tasks",
            fix="leave the section `tasks` as the run has it: then its stored tasks are used; or bring its rows back",
        )
    notes = {**read.notes, "gone": len(stored.tasks) - len(kept)}
    return TaskSet(kept, fingerprint_tasks(kept), notes)
