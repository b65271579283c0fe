"""What is known of the golds of all train tasks, and which of them is the wrong answer at another task."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rlft.audit.attacks.made import are_near, made_answer
from rlft.audit.attacks.scripts import calls_of, form_of, script_of, text_of
from rlft.audit.attacks.texts import as_json, items_of, labels_in, plain, program_of, shared_form
from rlft.harness.scripted import Script
from rlft.types import Task

MOST_GOLDS = 1_000
"""From how many different golds attackers learn what is frequent."""
MOST_ANSWERS = 200
"""How many answers of other tasks an attempt lists at most."""
_MOST_COMPARED = 100  # golds that are looked at to learn whether they differ by order alone


@dataclass(frozen=True)
class Pool:
    """What is known of the train golds.

    `golds` are the different scripts and `texts` what they say last, the most frequent first. `form` is what all these
    texts begin and end with, and `answers` are the different answers without their forms. `counted` is the number of
    tasks with a gold, and `frequency` says how many of them have each text. `lists` has, for each field of `task.info`
    that is a list of texts, all that stands in it. `given` has the answer of a task with each of `golds`.
    """

    golds: tuple[Script, ...]
    texts: tuple[str, ...]
    form: tuple[str, str]
    answers: tuple[str, ...]
    counted: int
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    frequency: Mapping[str, int] = field(default_factory=dict)
    given: tuple[Any, ...] = ()

    @classmethod
    def of(cls, golds: Mapping[str, Script], tasks: Sequence[Task]) -> Pool:
        """Make the pool of {task id: gold} and the tasks."""
        keys = {task_id: json.dumps(gold, sort_keys=True) for task_id, gold in golds.items()}
        known = {keys[task_id]: gold for task_id, gold in golds.items()}
        ordered = {key: known[key] for key, _ in Counter(keys.values()).most_common()}
        texts = tuple(dict.fromkeys(text for gold in ordered.values() if (text := text_of(gold))))
        form, answer = shared_form(texts), {keys[task.id]: task.answer for task in tasks if task.id in keys}
        answers: dict[str, None] = {}
        for key, gold in ordered.items():
            if text := text_of(gold):
                begins, ends = form_of(text, form, answer.get(key))
                answers[text.removeprefix(begins).removesuffix(ends)] = None
        frequency = Counter(map(text_of, golds.values()))
        given = tuple(answer.get(key) for key in ordered)
        return cls(tuple(ordered.values()), texts, form, tuple(answers), len(golds), _lists(tasks), frequency, given)

    @cached_property
    def differ_by_order(self) -> bool:
        """Whether all golds have the same items, so that their order is the answer."""
        some = {self._items(text) for text in self.texts[:_MOST_COMPARED]}
        return len(self.texts) > 1 and len(some) == 1 and None not in some

    def are_same_items(self, one: str, two: str) -> bool:
        """Return whether two texts list the same items, and their order is not what all golds differ by."""
        return (found := self._items(one)) is not None and found == self._items(two) and not self.differ_by_order

    def _items(self, text: str) -> tuple[str, ...] | None:
        begins, ends = self.form
        return items_of(text if as_json(text) is not None else text.removeprefix(begins).removesuffix(ends))

    @cached_property
    def plain_answers(self) -> tuple[str, ...]:
        """The answers as `plain` has them."""
        return tuple(map(plain, self.answers))

    @cached_property
    def values(self) -> tuple[tuple[str, Any, int], ...]:
        """Up to `MOST_GOLDS` of `texts`: what each is as JSON (`None` if it is no object or list), how often it is."""
        return tuple((text, as_json(text), n) for text, n in itertools.islice(self.frequency.items(), MOST_GOLDS))

    @cached_property
    def listed(self) -> tuple[tuple[list[str], int], ...]:
        """The labels of each of `values`, and how often it is; nothing where they are no classes."""
        return labels_in(self.values, self.form)

    @property
    def labels(self) -> tuple[str, ...]:
        """The answers, if they are few and recur as classes do; else nothing."""
        few = 2 <= len(self.answers) <= 12 and self.counted >= 2 * len(self.answers)
        return self.answers if few else ()


@dataclass(frozen=True, slots=True)
class Other:
    """The gold of another task, and its answer without the form; or, where none differs enough, a made-up one."""

    script: Script
    answer: str
    is_made: bool = False


def other_gold(task: Task, tasks: Sequence[Task], golds: Mapping[str, Script], pool: Pool, seed: int) -> Other | None:
    """Return the gold of the first task, from a random place on, whose answer and gold differ from this task's.

    Numbers and days that a tolerant reward could take for equal do not differ, and neither do the same items in another
    order, unless it is the order that all golds differ by. Where none differs a made-up one is returned.
    """
    start, own = random.Random(f"{seed}:{task.id}").randrange(len(tasks)), golds.get(task.id)
    for index in range(len(tasks)):
        other = tasks[(start + index) % len(tasks)]
        gold = golds.get(other.id)
        if gold is None or gold == own or (other.answer is not None and other.answer == task.answer):
            continue
        if not (are_near(task.answer, other.answer) or (own and pool.are_same_items(text_of(own), text_of(gold)))):
            begins, ends = form_of(text_of(gold), pool.form, other.answer)
            return Other(gold, text_of(gold).removeprefix(begins).removesuffix(ends))
    return _made_up(task, own, pool)


def _made_up(task: Task, gold: Script | None, pool: Pool) -> Other | None:
    """Return a made-up answer in the form of a task's gold; `None` for golds that call tools, and for programs."""
    if gold is None or calls_of(gold) or program_of(text_of(gold)) is not None:
        return None
    begins, ends = form_of(text_of(gold), pool.form, task.answer)
    made = made_answer(text_of(gold).removeprefix(begins).removesuffix(ends))
    return None if made is None else Other(script_of(f"{begins}{made}{ends}"), made, is_made=True)


def _lists(tasks: Sequence[Task]) -> dict[str, tuple[str, ...]]:
    """Return {field: its different texts in all tasks} for the fields of `info` that are lists of texts."""
    found: dict[str, dict[str, None]] = {}
    for task in tasks:
        for name, value in task.info.items():
            if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
                found.setdefault(name, {}).update(dict.fromkeys(value))
    return {name: tuple(texts) for name, texts in found.items()}
