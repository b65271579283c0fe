"""What a kind of attack is (`Attack`), and what it is made from: one task (`Known`), and all train golds (`Pool`)."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

from rlft.environments.contract.marks import ToolSpec
from rlft.harness.scripted import Script, as_script
from rlft.rewards.audit.attacks.texts import (
    are_near,
    as_json,
    calls_of,
    form_of,
    items_of,
    made_answer,
    plain,
    program_of,
    said_answers,
    shared_form,
    text_of,
)
from rlft.rewards.graders.numbers import parse_number
from rlft.types import Message, Task, ToolCall

MOST_ANSWERS = 200
"""How many answers of other tasks an attempt lists at most."""
_MOST_COMPARED = 100  # golds that are looked at to learn whether they differ by order alone


@dataclass(frozen=True)
class Pool:
    """What is known of the train golds.

    `golds` are the different scripts and `texts` what they say last, the most frequent first. `form` is what all these
    texts begin and end with, and `answers` are the different answers without their forms. `counted` is the number of
    tasks with a gold, and `given` has the answer of a task with each of `golds`.
    """

    golds: tuple[Script, ...]
    texts: tuple[str, ...]
    form: tuple[str, str]
    answers: tuple[str, ...]
    counted: int
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
        given = tuple(answer.get(key) for key in ordered)
        return cls(tuple(ordered.values()), texts, form, tuple(answers), len(golds), given)

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
    return None if made is None else Other(as_script(f"{begins}{made}{ends}"), made, is_made=True)


@dataclass(frozen=True)
class Known:
    """What is known of one task: its gold, the gold of a task with another answer, the pool and the tools.

    `own` are the attempts that the environment's `attacks` names. What is derived is computed once, as dozens of
    attackers ask for it; it must not be changed.
    """

    task: Task
    gold: Script | None
    rival: Other | None
    pool: Pool
    tools: Mapping[str, ToolSpec] = field(default_factory=dict)
    own: Mapping[str, Script] = field(default_factory=dict)

    @property
    def other(self) -> Script | None:
        """The gold of another task, or a made-up one."""
        return None if self.rival is None else self.rival.script

    @property
    def other_answer(self) -> str:
        """The other task's answer, or a sentence that is none."""
        return (self.rival.answer if self.rival is not None else "") or "I do not know"

    @cached_property
    def text(self) -> str:
        """What gold says last."""
        return "" if self.gold is None else text_of(self.gold)

    @cached_property
    def form(self) -> tuple[str, str]:
        """What stands before and behind the answer in gold."""
        return form_of(self.text, self.pool.form, self.task.answer)

    @cached_property
    def answer(self) -> str:
        """The answer of gold, without its form."""
        begins, ends = self.form
        return self.text.removeprefix(begins).removesuffix(ends)

    @cached_property
    def number(self) -> Fraction | None:
        """The answer as a number, if it is one."""
        return parse_number(self.answer)

    @cached_property
    def value(self) -> Any:
        """The object or list that gold is as JSON, else `None`."""
        return as_json(self.text)

    @cached_property
    def other_value(self) -> Any:
        """The other task's gold as JSON, else `None`."""
        return None if self.other is None else as_json(text_of(self.other))

    @cached_property
    def program(self) -> str | None:
        """The Python program that gold is, else `None`."""
        return program_of(self.text)

    @cached_property
    def calls(self) -> list[ToolCall]:
        """The tool calls of gold."""
        return [] if self.gold is None else calls_of(self.gold)

    @cached_property
    def text_counts(self) -> bool:
        """Whether gold's answer is handed in by what it says last: the task's answer stands there, and in no call."""
        if not self.calls:
            return True
        said = [plain(each) for each in said_answers(self.task.answer) if plain(each) in plain(self.text)]
        given = plain(json.dumps([call["function"]["arguments"] for call in self.calls], ensure_ascii=False))
        return bool(said) and not any(each in given for each in said)

    @cached_property
    def short(self) -> bool:
        """Whether gold is a short answer in a short form, which is read out of the text or compared with it."""
        is_short = bool(self.answer.strip()) and len(self.answer) <= 80 and sum(map(len, self.form)) <= 60
        return is_short and self.value is None and self.program is None

    @cached_property
    def _plain_text(self) -> str:
        return plain(self.text)

    @cached_property
    def _plain_answer(self) -> str:
        return plain(self.answer)

    def declare(self, answer: str) -> str:
        """Return an answer in gold's form."""
        begins, ends = self.form
        return f"{begins}{answer}{ends}"

    @property
    def right(self) -> str:
        """Gold's answer in its form."""
        return self.declare(self.answer)

    @property
    def wrong(self) -> str:
        """The other task's answer in gold's form."""
        return self.declare(self.other_answer)

    def say(self, text: str) -> Script:
        """Return the script that says a text, behind gold's own calls where it is the text that counts."""
        said = Message(role="assistant", content=text)
        if self.gold is None or not self.calls or not self.text_counts:
            return (said,)
        return (*(message for message in self.gold if message.get("tool_calls")), said)

    def is_gold(self, script: Script) -> bool:
        """Return whether a script is gold, or the same answer written in another way."""
        if script == self.gold:
            return True
        if self.gold is None or _asked(calls_of(script)) != _asked(self.calls):
            return False
        said = text_of(script)
        if self.pool.are_same_items(self.text, said):
            return True
        if self.value is not None:
            return as_json(said) == self.value
        begins, ends = self.form
        number = None if self.number is None else parse_number(said.removeprefix(begins).removesuffix(ends))
        if number is not None and number != self.number:
            return False  # only signs tell 5 from -5, and 1.5 from 15
        return bool(self._plain_text) and plain(said) in (self._plain_text, self._plain_answer)

    def calls_otherwise(self, script: Script) -> bool:
        """Return whether a script calls tools as gold does not, where the answer is handed in by calls."""
        return bool(self.calls) and not self.text_counts and _asked(calls_of(script)) != _asked(self.calls)

    def around(self) -> list[str]:
        """Return answers of other tasks with gold's own in their middle; nothing if there are fewer than two others."""
        pairs = zip(self.pool.answers, self.pool.plain_answers, strict=True)
        found = (each for each, short in pairs if short != self._plain_answer)
        others = list(itertools.islice(found, MOST_ANSWERS - 1))
        middle = (len(others) + 1) // 2
        return [*others[:middle], self.answer, *others[middle:]] if len(others) >= 2 and self.answer else []


def _asked(calls: Sequence[ToolCall]) -> list[Any]:
    """Return names and arguments of calls, whose ids say nothing."""
    return [call["function"] for call in calls]


Made = str | Script | None
"""An attempt as text, said as `Known.say` does, or as messages; `None` where there is none for a task."""


@dataclass(frozen=True, slots=True)
class Attack:
    """A kind of attack. `name` is the stable id that findings and `reward.accept_exploits` use.

    `why` says why the attempt deserves no full reward. `make` is its text, or makes one attempt, or a list of variants
    of which an honest reward may pay some but not all (gold before another answer, and behind it): the attack earns
    what the worst paid of them earns; with `best_counts` what the best paid one does. It is tried where it `applies`,
    one that is tried `everywhere` on all tasks that are audited. An attack that is not `certain` may be right on some
    tasks by chance, as another task's gold may be. One that `says_nothing` holds neither gold nor an answer to another
    task; one that `is_constant` is the same answer for every task, learned from the golds.

    `counts` says by what its mean fails a reward, beside earning as much as gold: by its share of gold's (`mean`); by
    its share of what gold earns above another task's gold (`above_other`), for an attempt that holds gold and so
    resembles it; or not at all (`full`), for a piece of gold, which an honest reward may pay nearly as much.
    """

    name: str
    why: str
    make: str | Callable[[Known], Made | list[str]]
    applies: Callable[[Known], bool] = lambda known: True
    certain: bool = True
    says_nothing: bool = False
    is_constant: bool = False
    everywhere: bool = False
    counts: Literal["mean", "above_other", "full"] = "mean"
    best_counts: bool = False

    def scripts(self, known: Known) -> list[Script]:
        """Return the variants of the attempt at a task; none where the attack does not apply or would be gold."""
        if not self.applies(known):
            return []
        made = self.make if isinstance(self.make, str) else self.make(known)
        variants = made if isinstance(made, list) else [made]
        scripts = [known.say(each) if isinstance(each, str) else each for each in variants if each is not None]
        return [] if any(map(known.is_gold, scripts)) else scripts
