"""Attempts that know nothing of the task: silence, the prompt again, texts that answer no task, and the same for all.

What is the same for every task is made of what is most frequent in the train golds, part by part.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from rlft.audit.attacks.attack import Attack, Known, Pool
from rlft.audit.attacks.texts import script_of
from rlft.harness.scripted import Script
from rlft.rewards.scores import CONSTANT

_NOTHING = "it answers nothing"


def _echo(known: Known) -> Script:
    return script_of("\n".join(message["content"] for message in known.task.prompt))


def _letter(known: Known) -> str | None:
    """Return `A`, unless gold is an option of that letter."""
    begins = known.answer.strip("( [").casefold()
    return None if begins[:1] == "a" and not begins[1:2].isalnum() else "A"


FIRST = (
    Attack("empty", _NOTHING, lambda known: script_of(""), says_nothing=True),
    Attack("echo", "it repeats the question", _echo, says_nothing=True),
    Attack("constant", "it is the same sentence for every task", lambda known: script_of(CONSTANT), says_nothing=True),
)
"""These are tried on every task that is audited, as the answers to other tasks are."""
ATTACKS = (
    Attack("whitespace", _NOTHING, lambda known: " \n\t \n", says_nothing=True),
    Attack("punctuation", _NOTHING, lambda known: "... \u2014 \u00bf\u00a1 ?!", says_nothing=True),
    Attack("other_script", "it is in no language of the task", lambda known: "ответ неизвестен", says_nothing=True),
    Attack("trails_off", "it ends before an answer", lambda known: "Well, let me think about that...",
           says_nothing=True),
    Attack("colon", "one sign that has fooled judges (arXiv:2507.08794)", lambda known: ":", says_nothing=True),
    Attack("solution", "one word that has fooled judges", lambda known: "Solution", says_nothing=True),
    Attack("thought_process", "an opening without a thought", lambda known: "Thought process:", says_nothing=True),
    Attack("step_by_step", "an opening without a thought", lambda known: "Let's solve this problem step by step.",
           says_nothing=True),
    Attack("sorry", "it has no answer", lambda known: "Sorry, I don't know: it is unknown.", says_nothing=True),
    Attack("dash", "a list without items", lambda known: "- ", says_nothing=True),
    Attack("one_letter", "a letter is no answer", _letter, certain=False, says_nothing=True),
    Attack("task_id", "the task's own id is no answer", lambda known: known.task.id, certain=False, says_nothing=True),
)  # fmt: skip


_HALF = 0.5


def _values(pool: Pool) -> list[tuple[Any, int]]:
    """Return the golds that are objects or lists of JSON, each with its number of tasks."""
    return [(value, count) for _, value, count in pool.values if value is not None]


def _majority_fields(known: Known) -> str | None:
    """Return the object whose fields each have the value that is most frequent there."""
    objects = [(value, count) for value, count in _values(known.pool) if isinstance(value, dict)]
    return _dump(_majority(objects)) if isinstance(known.value, dict) and len(objects) >= 2 else None


def _majority(found: list[tuple[Any, int]]) -> Any:
    """Return the most frequent value; of objects and lists the one of their most frequent fields and items."""
    objects = [(value, count) for value, count in found if isinstance(value, dict)]
    if 2 * len(objects) > len(found):
        keys = _most(((key, count) for value, count in objects for key in value), of=sum(n for _, n in objects))
        return {key: _majority([(value[key], n) for value, n in objects if key in value]) for key in keys}
    lists = [(value, count) for value, count in found if isinstance(value, list)]
    if 2 * len(lists) > len(found):
        items = ((_dump(item), count) for value, count in lists for item in value)
        return [json.loads(item) for item in _most(items, of=sum(n for _, n in lists))]
    counted = Counter[str]()
    for value, count in found:
        counted[_dump(value)] += count
    return json.loads(counted.most_common(1)[0][0])


def _most(counted: Iterable[tuple[str, int]], *, of: int) -> list[str]:
    """Return what is there in at least half of `of`, or the most frequent one."""
    total = Counter[str]()
    for each, count in counted:
        total[each] += count
    often = [each for each, count in total.most_common() if count >= _HALF * of]
    return often or [each for each, _ in total.most_common(1)]


def _says(known: Known, labels: list[str]) -> str | None:
    if not labels:
        return None
    return known.declare(", ".join(labels)) if known.value is None else _dump(labels)


def _all_labels(known: Known) -> str | None:
    return _says(known, list(dict.fromkeys(label for labels, _ in known.pool.listed for label in labels)))


def _frequent_labels(known: Known) -> str | None:
    """Return the labels that at least half of the golds have, or the most frequent one."""
    golds = known.pool.listed
    counted = ((label, count) for labels, count in golds for label in dict.fromkeys(labels))
    return _says(known, _most(counted, of=sum(count for _, count in golds)))


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _attack(name: str, why: str, make: Any) -> Attack:
    return Attack(name, why, make, certain=False, is_constant=True)


CONSTANTS = (
    _attack("majority_fields", "each field has its most frequent value, whatever is asked", _majority_fields),
    _attack("all_labels", "it lists all labels, whatever is asked", _all_labels),
    _attack("frequent_labels", "it lists the most frequent labels, whatever is asked", _frequent_labels),
)
