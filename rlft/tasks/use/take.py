"""Makes tasks of records of use: tasks of `train` and `validation` alone, and an account of every record.

Left out is what a run trains or is measured on already, exactly or nearly. What is taken is even over kinds of tasks,
so that what is asked most does not crowd out the rest.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from rlft.config import UseConfig
from rlft.evaluation.gates import prompt_key, question_of, task_hash
from rlft.tasks.contamination import Overlap, find_contamination
from rlft.tasks.contamination.overlap import Text
from rlft.tasks.fields import FieldError
from rlft.tasks.rows import content_id
from rlft.tasks.splits import Claims, order_by_hash
from rlft.tasks.use.gold import NoQuestionError, PeopleDisagreeError, gold_of, has_feedback, kind_of_answer, read_prompt
from rlft.tasks.use.records import REASONS, STRATUM, TRACE, Account, Reason, Record, Use
from rlft.texts.privacy import LONGEST, Masker
from rlft.types import Message, Split, Task


def draw_evenly(tasks: Sequence[Task], count: int, kind: Callable[[Task], str]) -> list[Task]:
    """Return at most `count` of the tasks, in their order, as evenly over their kinds as these have tasks.

    Each kind gets the same number; what a small one does not have goes to the others. Within a kind a hash of the id
    decides, so that the same tasks are drawn again whatever else is there. Of numbers that do not divide the kinds with
    more tasks get one more.
    """
    kinds: dict[str, list[Task]] = defaultdict(list)
    for task in order_by_hash(tasks, seed=0):
        kinds[kind(task)].append(task)
    chosen, left = set[str](), count
    by_size = sorted(kinds.items(), key=lambda item: (len(item[1]), item[0]))
    for place, (_, members) in enumerate(by_size):
        taken = members[: left // (len(by_size) - place)]
        chosen |= {task.id for task in taken}
        left -= len(taken)
    return [task for task in tasks if task.id in chosen]


_Where = Literal["train", "held_out", "demonstrations"]
_REASONS: dict[tuple[_Where, bool], Reason] = {
    ("train", True): "in_train",
    ("train", False): "near_train",
    ("held_out", True): "in_held_out",
    ("held_out", False): "near_held_out",
    ("demonstrations", True): "in_demonstrations",
    ("demonstrations", False): "near_demonstrations",
}


def leave_out_known(
    tasks: Sequence[Task], others: Sequence[Task], demonstrations: Sequence[Text], claims: Claims, account: Account
) -> list[Task]:
    """Return the tasks whose prompts neither are nor overlap with those of `others` and demonstrations.

    What overlaps is defined in docs/guide/contamination.md. `claims` holds the questions of `others`.
    """
    splits: dict[str, Split] = {task.id: task.split for task in others}
    bare = [[replace(task, answer=None) for task in each] for each in (tasks, others)]  # people write answers otherwise
    found = find_contamination({"use": bare[0]}, bare[1], demonstrations).found
    kept = list[Task]()
    for task in tasks:
        owners: list[Split] = [claims.owners[key] for key in _keys(task) if key in claims.owners]
        if owners:
            account.leave_out(_REASONS[_where(owners[0]), True])
        elif (overlap := found.get(task.id)) is not None:
            account.leave_out(_reason(overlap, splits))
        elif task.id in claims.ids:
            account.leave_out("in_train")  # with an id that a row of the file has, too
        else:
            kept.append(task)
    return kept


def leave_out_near_validation(tasks: Sequence[Task], account: Account) -> list[Task]:
    """Return the tasks without those of `train` that overlap with one of `validation`."""
    measured = [task for task in tasks if task.split == "validation"]
    trained = [task for task in tasks if task.split == "train"]
    found = find_contamination({"use": trained}, measured).found
    for overlap in found.values():
        account.leave_out(_REASONS["held_out", overlap.kind == "exact"])
    return [task for task in tasks if task.id not in found]


def leave_out_trained_before(tasks: Sequence[Task], hashes: frozenset[str], account: Account) -> list[Task]:
    """Return the tasks that the champion was not trained on, by their hashes."""
    kept = [task for task in tasks if task_hash(task) not in hashes]
    account.leave_out("trained_before", len(tasks) - len(kept))
    return kept


def _keys(task: Task) -> tuple[str, str]:
    return prompt_key(task.prompt), question_of(task)


def _reason(overlap: Overlap, splits: Mapping[str, Split]) -> Reason:
    where = "demonstrations" if overlap.source == "demonstrations" else _where(splits[overlap.other])
    return _REASONS[where, overlap.kind == "exact"]


def _where(split: Split) -> _Where:
    return "train" if split == "train" else "held_out"


logger = logging.getLogger(__name__)
USE_SPLITS: tuple[Split, ...] = ("train", "validation")
"""The splits that tasks from use may be in. Nothing is decided on them."""
"""Columns of a task's `info`: the id of its record, and its kind."""
_NO_STRATUM, _OTHER_STRATUM = "(none)", "(other)"


@dataclass(frozen=True, slots=True)
class _Asked:
    """A record with its prompt, and what a task gets of it as `info`: both masked."""

    record: Record
    prompt: tuple[Message, ...]
    info: dict[str, Any]


def take_from_use(
    use: Use, settings: UseConfig, others: Sequence[Task], claims: Claims, *, environment: str
) -> tuple[list[Task], dict[str, Any]]:
    """Return tasks of records, and a note that counts what became of all records.

    `others` are the tasks of the run that come from elsewhere, and `claims` holds their questions. No task is in a
    split other than `USE_SPLITS`. The note is JSON: `found`, `taken` by split and in `strata`, `left_out` by reason;
    taken and left out add up to found. `masked` counts what was masked by kind.
    """
    account, masker = Account(), Masker(settings.mask)
    asked = _read(use.records, settings, masker, account)
    tasks = _with_gold(asked, settings, environment, masker, account)
    tasks = _with_gold_like(others, tasks, account)
    tasks = leave_out_known(tasks, others, use.demonstrations, claims, account)
    tasks = leave_out_trained_before(tasks, use.trained_before, account)
    tasks = [replace(task, split=split_of(task.question_key, settings.validation_share)) for task in tasks]
    tasks = leave_out_near_validation(tasks, account)
    tasks = _bounded(tasks, settings, others, account)
    taken = Counter(task.split for task in tasks)
    note = {
        "source": use.where,
        "split_by": "a hash of the question",
        "found": len(use.records),
        "taken": {name: taken[name] for name in USE_SPLITS},
        "left_out": {reason: account.left_out[reason] for reason in REASONS if account.left_out[reason]},
        "masked": dict(sorted(masker.counts.items())),
        "strata": dict(sorted(Counter(stratum(task) for task in tasks).items())),
        "without_answer": sum(task.answer is None for task in tasks),
    }
    _tell(note)
    return tasks, note


def split_of(question: str, validation_share: float) -> Split:
    """Return the split of a question, given as `rlft.evaluation.gates.prompt_key`, for good.

    It depends on the question and the share alone: other records, seeds and sizes move none, and a larger share moves
    questions only into validation.
    """
    digest = hashlib.sha256(f"use|{question}".encode()).digest()
    return "validation" if int.from_bytes(digest[:8]) / 2**64 < validation_share else "train"


def stratum(task: Task) -> str:
    """Return the kind that a task from use is of."""
    return str(task.info.get(STRATUM, _NO_STRATUM))


def _read(records: Iterable[Record], settings: UseConfig, masker: Masker, account: Account) -> list[_Asked]:
    """Return the records that ask something, with what they ask."""
    asked = list[_Asked]()
    for record in sorted(records, key=lambda each: (each.time, each.id)):
        try:
            if record.failed:
                account.leave_out("failed")
            elif not has_feedback(record, settings.feedback):
                account.leave_out("other_feedback")
            else:
                asked.append(_masked(record, settings, masker))
        except FieldError:
            account.leave_out("no_prompt")
        except NoQuestionError:
            account.leave_out("not_a_question")
        except _TooLongError:
            account.leave_out("too_long")
    return asked


def _masked(record: Record, settings: UseConfig, masker: Masker) -> _Asked:
    """Read and mask a record. Raises FieldError and NoQuestionError, as `read_prompt`, and _TooLongError."""
    prompt, columns = read_prompt(record.inputs, settings.prompt)
    _check_length([prompt, columns], masker)
    kind = _kind(record, columns, settings)
    info = masker.value(columns | {STRATUM: kind}) | {TRACE: record.id}
    return _Asked(record, tuple(masker.value(message) for message in prompt), info)


def _kind(record: Record, columns: Mapping[str, Any], settings: UseConfig) -> str:
    """Return the stratum of a record: what its tag or column says, if that is one of the values that count."""
    by, known = settings.strata, settings.strata_values
    kind = _NO_STRATUM if by is None else str(record.tags.get(by, columns.get(by, _NO_STRATUM)))
    return kind if known is None or kind in known else _OTHER_STRATUM


def _with_gold(
    asked: Sequence[_Asked], settings: UseConfig, environment: str, masker: Masker, account: Account
) -> list[Task]:
    """Return one task for each question, with the answer that people agree on."""
    questions: dict[str, list[_Asked]] = {}
    for each in asked:
        questions.setdefault(prompt_key(each.prompt), []).append(each)
    tasks = list[Task]()
    for question, same in questions.items():
        try:
            gold = None if settings.gold == "none" else gold_of([each.record for each in same], settings)
            _check_length(gold and gold.answer, masker)
        except PeopleDisagreeError:
            account.leave_out("people_disagree", len(same))
            continue
        except _TooLongError:
            account.leave_out("too_long", len(same))
            continue
        if gold is None and settings.gold == "required":
            account.leave_out("no_gold", len(same))
            continue
        account.leave_out("repeated", len(same) - 1)
        tasks.append(_task(same[0], question, masker.value(gold.answer) if gold else None, environment))
    return tasks


class _TooLongError(ValueError):
    """More text than is masked."""


def _check_length(content: Any, masker: Masker) -> None:
    """Raise _TooLongError for a JSON value of more characters than are masked, if any are."""
    if masker.kinds and len(json.dumps(content, ensure_ascii=False)) > LONGEST:
        raise _TooLongError


def _with_gold_like(others: Sequence[Task], tasks: Sequence[Task], account: Account) -> list[Task]:
    """Return the tasks without those whose answer is of a kind that the answers of `others` are not, if these have any.

    A person who writes the number 5 where the reward expects a text would end the run, or teach nothing.
    """
    known = {kind_of_answer(task.answer) for task in others if task.answer is not None}
    kept = [task for task in tasks if task.answer is None or not known or kind_of_answer(task.answer) in known]
    account.leave_out("other_gold", len(tasks) - len(kept))
    return kept


def _task(asked: _Asked, question: str, answer: Any, environment: str) -> Task:
    return Task(
        id=content_id(asked.prompt, answer, environment),
        environment=environment,
        prompt=asked.prompt,
        answer=answer,
        info=asked.info,
        split="train",
        group=question,
        question_key=question,
    )


def _bounded(tasks: list[Task], settings: UseConfig, others: Sequence[Task], account: Account) -> list[Task]:
    """Return a sample, even over strata, of at most `most` tasks, and of no larger share of a split than allowed."""
    if settings.most is not None:
        kept = draw_evenly(tasks, settings.most, stratum)
        account.leave_out("beyond_most", len(tasks) - len(kept))
        tasks = kept
    drawn = list[Task]()
    for name in USE_SPLITS:
        own = [task for task in tasks if task.split == name]
        room = most_beside(sum(task.split == name for task in others), settings.max_share)
        kept = draw_evenly(own, room, stratum)
        account.leave_out("beyond_max_share", len(own) - len(kept))
        drawn += kept
    return drawn


def most_beside(others: int, share: float) -> int:
    """Return how many tasks beside so many others are at most this share, below 1, of them all."""
    return math.floor(others * share / (1 - share) + 1e-9)  # 0.3 / 0.7 x 7 is 2.9999999999999996


def _tell(note: dict[str, Any]) -> None:
    left = ", ".join(f"{count} {reason}" for reason, count in note["left_out"].items()) or "none"
    taken = ", ".join(f"{count} for {name}" for name, count in note["taken"].items())
    logger.info("%s: of %d records tasks are made: %s; left out: %s", note["source"], note["found"], taken, left)
