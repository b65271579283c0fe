"""Tells which tasks and gates are the same, and how strict each of several decisions by one gate must be.

A task is known again by what its row asks, whatever template it stands in, and a gate by its tasks. The chance of a
false promotion is split over the decisions by one gate, of models that it had no part in choosing (`Look`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rlft.texts.characters import as_written
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


_FALSE = 0.05  # the chance that one of all looks promotes a model that is no better
_ONE_SIDED = 0.025  # of a single look it is no more than this: that of a 95 % interval
CHOOSING = (
    "Choose no model by what `gate` says, and go on from none that did best there: that at most 5 of 100 series of "
    "looks promote a model that is no better holds only for models that the gate had no part in choosing. Choose by "
    "validation."
)


@dataclass(frozen=True, slots=True)
class Look:
    """One decision on the tasks of a gate: its `number`, from 1, and what all looks so far have `spent`, this included.

    What is spent is a share of the chance of 5 % that they have in common: 1 / looks of each, by the `promotion.looks`
    that it was decided with.
    """

    number: int = 1
    spent: float = 1.0

    @property
    def is_allowed(self) -> bool:
        """Whether the chance of 5 % is not overspent."""
        return self.spent <= 1 + 1e-9  # twenty times 1/20 add up to a little more than 1


def next_look(past: Look, looks: int) -> Look:
    """Return the look after the last one, which is of number 0 without any, if it is one of so many."""
    return Look(past.number + 1, past.spent + 1 / looks)


def why_refused(look: Look, looks: int) -> str | None:
    """Return why nothing may be promoted at this look, by `promotion.looks`, and what to do; `None` if it may be."""
    if look.is_allowed:
        return None
    if look.number > looks:
        why = f"promotion.looks allows {looks}"
    else:
        why = f"what these have left of the chance of 5 % is less than one of {looks} looks takes"
    return (
        f"the gate has been looked at {look.number - 1} times, and {why}: by now chance could have promoted a model "
        "that is no better; draw a fresh gate (another tasks.seed, or new tasks)"
    )


def confidence_at(looks: int) -> float:
    """Return the two-sided confidence of each of so many looks at one gate.

    The lower bound of each is wrong with a chance of at most 0.05 / looks, so that of series of so many models that are
    no better at most 5 % contain a promotion (Bonferroni). It is never below 0.95. This holds as long as no model is
    chosen by what the gate has said. If each run goes on from the best on it so far, luck on its tasks is handed down
    and adds up: of such series of 20 looks up to 21 % promote (docs/performance.md, Intervals).

    >>> from rlft.evaluation.gates import confidence_at
    >>> confidence_at(20)
    0.995
    """
    return 1 - 2 * min(_ONE_SIDED, _FALSE / looks)
