"""Knows a task again by what its row asks, whatever template it stands in, and a gate by its tasks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from rlft.characters import as_written
from rlft.types import Message, Task

_DIGITS = 8
SKETCH = 540  # hashes of a gate that are kept: they fit into one tag of MLflow, which older servers cut at 5,000


def normalise_text(text: str) -> str:
    """Return the text as questions are compared: in NFKC, case folded, with single spaces as white space."""
    return " ".join(as_written(text).casefold().split())


def canonical_json(value: Any) -> str:
    """Return JSON that is the same text for equal values: sorted keys, no spaces. Raises ValueError for NaN."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def digest(value: Any) -> str:
    """Return 16 hexadecimal digits of a JSON value."""
    return hashlib.sha256(canonical_json(value).encode(errors="surrogatepass")).hexdigest()[:16]


def prompt_key(prompt: Sequence[Message]) -> str:
    """Return a hash that is equal for prompts which differ only in Unicode form, case and white space."""
    return digest([[message["role"], normalise_text(message["content"])] for message in prompt])


def question_key(fields: Sequence[str]) -> str:
    """Return the hash of a question that stands in these fields of a row, as `prompt_key` compares texts.

    That of one field is the `prompt_key` of a prompt which is this field alone.
    """
    texts = [normalise_text(field) for field in fields]
    return digest([["user", *texts]] if len(texts) == 1 else texts)


def question_of(task: Task) -> str:
    """Return what a task asks, as a hash: its `question_key`, or that of its prompt where none is noted."""
    return task.question_key or prompt_key(task.prompt)


def identities(task: Task) -> tuple[str, str, str]:
    """Return hashes of which two tasks share one if one is a copy of the other.

    That is if they have the same prompt, or the same answer to what is the same prompt or question but for Unicode
    form, case and white space. With answers of their own such tasks are two: in FEN the case of a letter is its colour.
    """
    answer = str(task.answer)
    return digest(task.prompt), digest([prompt_key(task.prompt), answer]), digest([question_of(task), answer])


def task_hash(task: Task) -> str:
    """Return eight hexadecimal digits of what a task asks. Its answer, its id and its template do not change them."""
    return question_of(task)[:_DIGITS]


def gate_id(tasks: Iterable[Task]) -> str:
    """Return 16 hexadecimal digits by which a gate is known: those of all its tasks, in any order."""
    return hashlib.sha256("".join(sorted(map(task_hash, tasks))).encode()).hexdigest()[:16]


def sketch(tasks: Iterable[Task]) -> str:
    """Return the `SKETCH` smallest hashes of a gate's tasks, one after the other: all of them, or a random sample."""
    return sketch_of(map(task_hash, tasks))


def sketch_of(hashes: Iterable[str]) -> str:
    """Return the `sketch` of tasks by their hashes."""
    return "".join(sorted(set(hashes))[:SKETCH])


def shared(ours: str, *theirs: str) -> float:
    """Return the share, 0 to 1, of the tasks of one gate that are in at least one of the others, by their sketches.

    It is exact up to `SKETCH` tasks each. Beyond, it is estimated from the hashes that all sketches reach (Beyer et
    al. 2007, SIGMOD): with a standard error of at most 2 points if the gates are equally large, and of more if others
    are larger than ours.
    """
    own, others = _hashes(ours), [_hashes(each) for each in theirs if each]
    if not own or not others:
        return 0.0
    cut = [kept[-1] for kept in (own, *others) if len(kept) == SKETCH]
    among = [each for each in own if not cut or each <= min(cut)]
    known = {each for kept in others for each in kept}
    return len(known.intersection(among)) / len(among) if among else 0.0


def is_same_gate(ours: str, *theirs: str) -> bool:
    """Return whether more than half of the tasks of `ours` were in the others, taken together."""
    return shared(ours, *theirs) > 0.5


def _hashes(kept: str) -> Sequence[str]:
    return [kept[place : place + _DIGITS] for place in range(0, len(kept), _DIGITS)]
