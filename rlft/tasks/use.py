"""Tasks from use: what people asked a served model, with the answers that people gave.

They are tasks of `train` and `validation` alone, and every record is accounted for. Left out is what a run trains or is
measured on already, exactly or nearly. What a program or a model said is nobody's word, and does not count.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from rlft.config import UseConfig
from rlft.evaluation.gates import canonical_json, normalise_text, prompt_key, question_of
from rlft.tasks.contamination import Text, find_contamination
from rlft.tasks.rows import FieldError, content_id, find_field, to_json, to_messages
from rlft.tasks.splits import TRACE, Claims, sample_tasks
from rlft.texts.privacy import Masker
from rlft.types import Message, Split, Task

logger = logging.getLogger(__name__)
PROMPT_FIELDS = ("messages", "prompt", "question", "text", "input", "query", "inputs")
"""The fields of the inputs that are tried in this order if the config names none."""
USE_SPLITS: tuple[Split, ...] = ("train", "validation")
"""The splits that tasks from use may be in. Nothing is decided on them."""
REASONS = (
    "failed", "other_feedback", "no_prompt", "not_a_question", "no_gold", "people_disagree", "other_gold",
    "repeated", "in_train", "near_train", "in_held_out", "near_held_out", "in_demonstrations", "near_demonstrations",
    "beyond_most", "beyond_max_share",
)  # fmt: skip
"""Why a record is no task, in the order in which that is looked at; docs/guide/use.md says what each means."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a person said of a record under a name.

    `person` is who (an empty text if nobody knows), `kind` whether it is what was expected or feedback on the answer,
    `time` milliseconds since the epoch.
    """

    person: str
    kind: Literal["expectation", "feedback"]
    name: str
    value: Any
    time: int


@dataclass(frozen=True, slots=True)
class Record:
    """A trace: what was asked, what was answered, and what people said.

    `inputs` and `output` are JSON values as they were logged, `time` is milliseconds since the epoch.
    """

    id: str
    inputs: Any
    output: Any = None
    time: int = 0
    failed: bool = False
    said: tuple[Said, ...] = ()


@dataclass(frozen=True, slots=True)
class Use:
    """All that a run reads of use, beside the config: `demonstrations` are conversations that it imitates."""

    where: str
    records: tuple[Record, ...]
    demonstrations: tuple[Text, ...] = ()


class LeftOutError(ValueError):
    """A record that is no task; the text is the reason, which docs/guide/use.md explains."""


def take_from_use(
    use: Use, settings: UseConfig, others: Sequence[Task], claims: Claims, *, environment: str
) -> tuple[list[Task], dict[str, Any]]:
    """Return tasks of records, and a note that counts what became of all records.

    `others` are the tasks of the run that come from elsewhere, and `claims` holds their questions. No task is in a
    split other than `USE_SPLITS`. The note is JSON: `found`, `taken` by split, `left_out` by reason; taken and left out
    add up to found. `masked` counts what was masked by kind.
    """
    left_out, masker = Counter[str](), Masker(settings.mask)
    questions: dict[str, list[_Asked]] = {}
    for record in sorted(use.records, key=lambda each: (each.time, each.id)):
        try:
            asked = _asked(record, settings, masker)
        except LeftOutError as reason:
            left_out[str(reason)] += 1
        else:
            questions.setdefault(prompt_key(asked.prompt), []).append(asked)
    tasks = list[Task]()
    for question, same in questions.items():
        try:
            tasks.append(_task(same, question, settings, environment, masker, others))
            left_out["repeated"] += len(same) - 1
        except LeftOutError as reason:
            left_out[str(reason)] += len(same)
    tasks = leave_out_known(tasks, others, use.demonstrations, claims, left_out)
    tasks = [replace(task, split=split_of(task.question_key, settings.validation_share)) for task in tasks]
    tasks = leave_out_near_validation(tasks, left_out)
    tasks = _bounded(tasks, settings, others, left_out)
    taken = Counter(task.split for task in tasks)
    note = {
        "source": use.where,
        "split_by": "a hash of the question",
        "found": len(use.records),
        "taken": {name: taken[name] for name in USE_SPLITS},
        "left_out": {reason: left_out[reason] for reason in REASONS if left_out[reason]},
        "masked": dict(sorted(masker.counts.items())),
        "without_answer": sum(task.answer is None for task in tasks),
    }
    said = (note["source"], note["found"], note["taken"], note["left_out"])
    logger.info("%s: of %d records tasks are made: %s; left out: %s", *said)
    return tasks, note


@dataclass(frozen=True, slots=True)
class _Asked:
    """A record with its prompt, and what a task gets of it as `info`: both masked."""

    record: Record
    prompt: tuple[Message, ...]
    info: dict[str, Any]


def _asked(record: Record, settings: UseConfig, masker: Masker) -> _Asked:
    """Read and mask a record. Raises LeftOutError for one that asks nothing."""
    if record.failed:
        raise LeftOutError("failed")
    if not has_feedback(record, settings.feedback):
        raise LeftOutError("other_feedback")
    try:
        prompt, columns = read_prompt(record.inputs, settings.prompt)
    except FieldError as cause:
        raise LeftOutError("no_prompt") from cause
    info = masker.value(columns) | {TRACE: record.id}
    return _Asked(record, tuple(masker.value(message) for message in prompt), info)


def read_prompt(inputs: Any, field: str | None) -> tuple[tuple[Message, ...], dict[str, Any]]:
    """Return the prompt without system messages, and the other fields of the inputs.

    What the system says is left to the environment, which says it again. Raises FieldError if there is no prompt, and
    LeftOutError if the last message is not the user's.
    """
    content = to_json(inputs, "inputs")
    name, value = _find(content, field)
    messages = tuple(message for message in to_messages(value, name) if message["role"] != "system")
    if not messages:
        raise FieldError(f"has nothing but system messages in {name!r}")
    if messages[-1]["role"] != "user":
        raise LeftOutError("not_a_question")
    others = {key: each for key, each in content.items() if key != name} if isinstance(content, Mapping) else {}
    return messages, others


def _find(content: Any, field: str | None) -> tuple[str, Any]:
    """Return the name and value of the prompt's field; inputs that are no object are the prompt themselves."""
    if not isinstance(content, Mapping):
        return "inputs", content
    if field is not None:
        return field, find_field(content, field)
    for name in PROMPT_FIELDS:
        if content.get(name) is not None:
            return name, content[name]
    raise FieldError(f"has no prompt: none of the fields {', '.join(PROMPT_FIELDS)}")


def answer_text(output: Any) -> str | None:
    """Return the text that a model answered; `None` if the output holds none in a known form.

    A text, messages (the last one that has content), an object with `messages`, `content` or `response`, and an answer
    in OpenAI's form are known.
    """
    if isinstance(output, str):
        return output
    if isinstance(output, list):
        found = (text for each in reversed(output) if (text := answer_text(each)) is not None)
        return next(found, None)
    if isinstance(output, Mapping):
        for name in ("messages", "choices", "message", "content", "text", "response", "answer"):
            if output.get(name) is not None:
                return answer_text(output[name])
    return None


def _task(
    same: Sequence[_Asked],
    question: str,
    settings: UseConfig,
    environment: str,
    masker: Masker,
    others: Sequence[Task],
) -> Task:
    """Return one task for a question, with the answer that people agree on. Raises LeftOutError.

    An answer of a kind that the answers of `others` are not is none: a person who writes the number 5 where the reward
    expects a text would end the run, or teach nothing.
    """
    gold = None if settings.gold == "none" else gold_of([each.record for each in same], settings)
    known = {kind_of_answer(task.answer) for task in others if task.answer is not None}
    if gold is None and settings.gold == "required":
        raise LeftOutError("no_gold")
    if gold is not None and known and kind_of_answer(gold) not in known:
        raise LeftOutError("other_gold")
    answer = masker.value(gold)
    return Task(
        id=content_id(same[0].prompt, answer, environment),
        environment=environment,
        prompt=same[0].prompt,
        answer=answer,
        info=same[0].info,
        split="train",
        group=question,
        question_key=question,
    )


def gold_of(records: Sequence[Record], settings: UseConfig) -> Any:
    """Return the right answer, a JSON value, of a question that these records ask; `None` if nobody has said one.

    An expectation or a correction names it. An approval makes the answer that was given right, and the opposite wrong,
    if `settings.approval` names the feedback. Of what a person said twice the later word counts. Two answers are the
    same if they differ in case, white space or Unicode form alone; the first that was said is returned. Raises
    LeftOutError where people named different right answers, or one named an answer that another called wrong.
    """
    names = {"expectation": settings.expectation, "feedback": settings.correction}
    answers = (said for record in records for said in record.said if said.name == names[said.kind])
    right: dict[str, tuple[int, Any]] = {}
    for said in _last_words(answers):
        if _key(said.value) not in ("", '""', "null"):
            _note(right, said.value, said.time)
    wrong: set[str] = set()
    for record in records:
        given = answer_text(record.output)
        approvals = (said for said in record.said if said.kind == "feedback" and said.name == settings.approval)
        for said in _last_words(approvals) if given else ():
            verdict = str(said.value).strip().casefold()
            if verdict in ("true", "yes"):
                _note(right, given, said.time)
            elif verdict in ("false", "no"):
                wrong.add(_key(given))
    if len(right) > 1 or wrong & right.keys():
        raise LeftOutError("people_disagree")
    return next((answer for _, answer in right.values()), None)


def kind_of_answer(answer: Any) -> str:
    """Return of which kind of JSON value an answer is: two kinds cannot both be right for one reward."""
    names = {bool: "truth value", int: "number", float: "number", str: "text", list: "list", dict: "object"}
    return names.get(type(answer), "nothing")


def has_feedback(record: Record, wanted: dict[str, Any]) -> bool:
    """Return whether people have given all the feedback that is wanted, {name: value}, by their last words."""
    last = {(said.name, _key(said.value)) for said in _last_words(s for s in record.said if s.kind == "feedback")}
    return all((name, _key(value)) in last for name, value in wanted.items())


def _last_words(said: Iterable[Said]) -> list[Said]:
    """Return what each person said last under each name, in the order of time; of the unknown all counts."""
    ordered = sorted(said, key=lambda each: (each.time, each.person, each.name))
    last = {(each.person or f"unknown {n}", each.kind, each.name): each for n, each in enumerate(ordered)}
    return sorted(last.values(), key=lambda each: (each.time, each.person, each.name))


def _note(right: dict[str, tuple[int, Any]], answer: Any, time: int) -> None:
    key = _key(answer)
    if key not in right or time < right[key][0]:
        right[key] = (time, to_json(answer, "answer"))


def _key(value: Any) -> str:
    """Return a text that is equal for answers which are the same; an empty one for what JSON cannot hold."""
    try:
        return canonical_json(_plain(to_json(value, "answer")))
    except FieldError:
        return ""


def _plain(value: Any) -> Any:
    match value:
        case str():
            return normalise_text(value)
        case dict():
            return {key: _plain(each) for key, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case _:
            return value


def leave_out_known(
    tasks: Sequence[Task],
    others: Sequence[Task],
    demonstrations: Sequence[Text],
    claims: Claims,
    left_out: Counter[str],
) -> list[Task]:
    """Return the tasks whose prompts neither are nor overlap with those of `others` and demonstrations.

    What overlaps is defined in docs/guide/contamination.md. `claims` holds the questions of `others`.
    """
    where = {task.id: "train" if task.split == "train" else "held_out" for task in others}
    bare = [[replace(task, answer=None) for task in each] for each in (tasks, others)]  # people write answers otherwise
    found = find_contamination({"use": bare[0]}, bare[1], demonstrations).found
    kept = list[Task]()
    for task in tasks:
        keys = (prompt_key(task.prompt), question_of(task))
        owners = [claims.owners[key] for key in keys if key in claims.owners]
        if owners:
            left_out["in_train" if owners[0] == "train" else "in_held_out"] += 1
        elif (overlap := found.get(task.id)) is not None:
            place = "demonstrations" if overlap.source == "demonstrations" else where[overlap.other]
            left_out[f"{'in' if overlap.kind == 'exact' else 'near'}_{place}"] += 1
        elif task.id in claims.ids:
            left_out["in_train"] += 1  # with an id that a row of the file has, too
        else:
            kept.append(task)
    return kept


def leave_out_near_validation(tasks: Sequence[Task], left_out: Counter[str]) -> list[Task]:
    """Return the tasks without those of `train` that overlap with one of `validation`."""
    measured = [task for task in tasks if task.split == "validation"]
    trained = [task for task in tasks if task.split == "train"]
    found = find_contamination({"use": trained}, measured).found
    for overlap in found.values():
        left_out["in_held_out" if overlap.kind == "exact" else "near_held_out"] += 1
    return [task for task in tasks if task.id not in found]


def split_of(question: str, validation_share: float) -> Split:
    """Return the split of a question, given as `rlft.evaluation.gates.prompt_key`, for good.

    It depends on the question and the share alone: other records, seeds and sizes move none, and a larger share moves
    questions only into validation.
    """
    digest = hashlib.sha256(f"use|{question}".encode()).digest()
    return "validation" if int.from_bytes(digest[:8]) / 2**64 < validation_share else "train"


def _bounded(tasks: Sequence[Task], settings: UseConfig, others: Sequence[Task], left_out: Counter[str]) -> list[Task]:
    """Return a sample of at most `most` tasks, and of no larger share of a split than allowed."""
    kept = sample_tasks(tasks, settings.most)
    left_out["beyond_most"] += len(tasks) - len(kept)
    drawn = list[Task]()
    for name in USE_SPLITS:
        own = [task for task in kept if task.split == name]
        taken = sample_tasks(own, most_beside(sum(task.split == name for task in others), settings.max_share))
        left_out["beyond_max_share"] += len(own) - len(taken)
        drawn += taken
    return drawn


def most_beside(others: int, share: float) -> int:
    """Return how many tasks beside so many others are at most this share, below 1, of them all."""
    return math.floor(others * share / (1 - share) + 1e-9)  # 0.3 / 0.7 x 7 is 2.9999999999999996
