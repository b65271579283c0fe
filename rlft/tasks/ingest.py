"""Makes the `TaskSet` of the config's `tasks` section: reads rows, makes tasks, splits them and drops duplicates.

Also makes one of another: without the tasks that a model cannot read, or of the tasks of a past run, found again among
those that were read anew.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rlft.config import SourceConfig, TasksConfig
from rlft.errors import TaskError
from rlft.evaluation.gates import canonical_json
from rlft.progress import Meter, Progress, silent
from rlft.tasks.reasoning_gym import Drawn, draw_tasks, second_seed
from rlft.tasks.rows import FieldError, check_template, make_task, own_split, split_column_decides
from rlft.tasks.sources import BadRow, BadRows, RawRow, describe_source, read_rows
from rlft.tasks.splits import (
    DEALT_SPLITS,
    Claims,
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


@dataclass(frozen=True, slots=True)
class _Ingested:
    """The tasks of one source, and the note about how they were read."""

    tasks: list[Task]
    note: dict[str, Any]


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
    claims, bad = Claims(), BadRows(config.max_bad_rows)
    _check_templates(config, "tasks")
    main = _ingest_main(config, environment, seed, claims, bad, progress)
    tasks, notes = main.tasks, {"tasks": main.note}
    if config.off_distribution is not None:
        _check_templates(config.off_distribution, "tasks.off_distribution")
        seen = len(bad.rows)
        others = _ingest_off_distribution(config, config.off_distribution, environment, seed, claims, bad, progress)
        notes["off_distribution"] = others.note | {"bad_rows": _as_notes(bad.rows[seen:])}
        tasks = tasks + others.tasks
    if config.use is not None and use is not None:
        from rlft.tasks.use import take_from_use  # it needs scipy, which the check of a file does not

        taken, notes["use"] = take_from_use(use, config.use, tasks, claims, environment=environment)
        tasks = tasks + taken
    ordered = tuple(sorted(tasks, key=lambda task: SPLITS.index(task.split)))
    check_groups(ordered, describe_source(config))
    counts = Counter(task.split for task in ordered)
    notes["rows_per_split"] = {name: counts[name] for name in SPLITS if counts[name]}
    return TaskSet(tasks=ordered, fingerprint=fingerprint_tasks(ordered), notes=notes)


def read_tasks(source: SourceConfig, *, environment: str, progress: Progress = silent) -> tuple[Task, ...]:
    """Return all tasks of a file or data set without duplicates, to try an environment on.

    They are in `train` unless the source's own `split` column decides. Raises `TaskError` if the source cannot be read
    or has a bad row.
    """
    claims, bad = Claims(), BadRows(limit=0)
    _check_templates(source, "tasks")
    rows = _read_all(source, bad, progress)
    by_column = split_column_decides(raw.row for raw in rows)
    tasks = _make_tasks(rows, source, environment, claims, bad, progress, by_column=by_column)
    return tuple(drop_duplicates(tasks, claims))


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
    ordered = tuple(sorted(tasks, key=lambda task: SPLITS.index(task.split)))
    counts = Counter(task.split for task in ordered)
    sources = {name: own.notes["tasks"] for name, own in found.items()}
    notes = {
        "tasks": {
            "source": "; ".join(f"{name}: {note['source']}" for name, note in sources.items()),
            "without_answer": sum(note["without_answer"] for note in sources.values()),
        },
        "environments": {name: own.notes for name, own in found.items()},
        "rows_per_split": {name: counts[name] for name in SPLITS if counts[name]},
    }
    return TaskSet(tasks=ordered, fingerprint=fingerprint_tasks(ordered), notes=notes)


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


def _check_templates(source: SourceConfig, section: str) -> None:
    check_template(source.prompt, f"{section}.prompt")
    check_template(source.answer, f"{section}.answer")


def _ingest_main(
    config: TasksConfig, environment: str, seed: int, claims: Claims, bad: BadRows, progress: Progress
) -> _Ingested:
    where = describe_source(config)
    if config.source == "reasoning_gym":
        wanted: dict[Split, int] = {name: getattr(config.splits, name) for name in DEALT_SPLITS}
        drawn = draw_tasks(
            config, wanted, environment=environment, seed=seed, claims=claims, bad=bad, progress=progress
        )
        tasks, how = drawn.tasks, {"split_by": "fixed shares of a generator's questions"} | _range(drawn)
    else:
        rows = _read_all(config, bad, progress)
        by_column = split_column_decides(raw.row for raw in rows)
        tasks = _make_tasks(rows, config, environment, claims, bad, progress, by_column=by_column)
        if not by_column:
            tasks = deal_tasks(tasks, config.splits, seed=seed)
        how = {"split_by": "taken from the column `split`" if by_column else "dealt by group"}
        tasks = drop_duplicates(tasks, claims)
        check_splits(tasks, where, by_column=by_column)
    return _Ingested(tasks, _note(where, how, tasks, claims) | {"bad_rows": _as_notes(bad.rows)})


def _ingest_off_distribution(
    config: TasksConfig,
    source: SourceConfig,
    environment: str,
    seed: int,
    claims: Claims,
    bad: BadRows,
    progress: Progress,
) -> _Ingested:
    """Tasks of another source, without those whose prompt is in another split; of a file they are a sample by hash."""
    where, count = describe_source(source), config.off_distribution_count
    how: dict[str, Any] = {}
    if source.source == "reasoning_gym":
        wanted: dict[Split, int] = {"off_distribution": count}
        drawn = draw_tasks(
            source,
            wanted,
            environment=environment,
            seed=second_seed(seed),
            claims=claims,
            bad=bad,
            progress=progress,
        )
        tasks, how = drawn.tasks, _range(drawn)
    else:
        rows = _read_all(source, bad, progress)
        tasks = _make_tasks(rows, source, environment, claims, bad, progress, by_column=False)
        tasks = drop_duplicates([replace(task, split="off_distribution") for task in tasks], claims)
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
    return _Ingested(tasks, _note(where, how, tasks, claims))


def _range(drawn: Drawn) -> dict[str, Any]:
    return {"seed": drawn.seed, "indices": [drawn.first, drawn.end], "spare": drawn.spare}


def _read_all(source: SourceConfig, bad: BadRows, progress: Progress) -> list[RawRow]:
    """Return all rows that can be read; the others are noted in `bad`."""
    meter = Meter(progress, None, "rows")
    rows: list[RawRow | BadRow] = []
    for row in read_rows(source):
        rows.append(row)
        meter.add()
    bad.rows += [raw for raw in rows if isinstance(raw, BadRow)]
    return [raw for raw in rows if isinstance(raw, RawRow)]


def _make_tasks(
    rows: list[RawRow],
    source: SourceConfig,
    environment: str,
    claims: Claims,
    bad: BadRows,
    progress: Progress,
    *,
    by_column: bool,
) -> list[Task]:
    """Return the tasks of all usable rows. Raises `TaskError` if too many rows are unusable."""
    tasks: list[Task] = []
    places: dict[str, str] = {}
    meter = Meter(progress, len(rows), "tasks")
    for raw in rows:
        meter.add()
        try:
            own = own_split(raw.row) if by_column else None
            task = make_task(raw, source, environment=environment, split=own)
            if source.id and (task.id in claims.ids or places.setdefault(task.id, raw.place) != raw.place):
                raise FieldError(f"has the id {task.id!r} of {places.get(task.id, 'a task from the main source')}")
        except FieldError as error:
            bad.rows.append(BadRow(raw.place, str(error)))
        else:
            tasks.append(task)
    bad.check(describe_source(source))
    without = sum(task.answer is None for task in tasks)
    if source.answer is not None and tasks and without == len(tasks):  # else the check may be code that needs none
        raise TaskError(
            f"the answer of every row is empty (null) in {source.answer!r}",
            where=describe_source(source),
            fix="name the field with the right answers in `answer` of the source, or remove that setting",
        )
    if 0 < without < len(tasks):
        logger.warning("%d of %d tasks have no answer to compare with", without, len(tasks))
    return tasks


def _note(where: str, how: dict[str, Any], tasks: list[Task], claims: Claims) -> dict[str, Any]:
    without = sum(task.answer is None for task in tasks)
    return {"source": where, **how, "duplicates_dropped": claims.take_dropped(), "without_answer": without}


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
    kept = tuple(task for task in tasks.tasks if task.id not in unread)
    counts = Counter(task.split for task in kept)
    notes = tasks.notes | {"rows_per_split": {name: counts[name] for name in SPLITS if counts[name]}}
    for note, (ids, why) in reasons.items():
        gone = {name: [task.id for task in tasks.split(name) if task.id in ids] for name in SPLITS}
        gone = {name: found for name, found in gone.items() if found}
        if empty := [name for name in gone if not counts[name]]:
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
    return TaskSet(tasks=kept, fingerprint=fingerprint_tasks(kept), notes=notes)


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
