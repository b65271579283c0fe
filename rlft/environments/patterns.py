"""Words that fit a pattern: shows what training does where an answer can be checked and many answers are right.

`a..c. +e -b:` asks for a word of five letters that begins with a, has c in the fourth place, has an e, and has no b.
The letters are those of `LETTERS`, and a word need not be one of a language. No task comes with an answer.

Known loophole: none of the reward, which checks every rule; but a policy may answer every task with words of few kinds.
"""

from __future__ import annotations

from collections.abc import Callable

import rlft
from rlft.environments.contract.base import BaseEnv
from rlft.types import Task

LETTERS = "abcdef"
Rule = Callable[[str], bool]


class Patterns(BaseEnv):
    """Asks for a word that meets the rules of the prompt. A task's prompt is a pattern and what follows it."""

    @rlft.reward(minimum=0.0)
    def rules(self, text: str, task: Task) -> float:
        """Return the share of the rules that the answer meets, from 0 to 1; what is no word of `LETTERS` meets none.

        Raises ValueError for a prompt that is no pattern.
        """
        word, rules = text.strip(), read_rules(task.text)
        if not word or not set(word) <= set(LETTERS):
            return 0.0
        return sum(rule(word) for rule in rules) / len(rules)


def read_rules(prompt: str) -> list[Rule]:
    """Return the rules of a prompt: its length, one for each letter in a place, one for each `+` and each `-`.

    Raises ValueError for a prompt that is no pattern.
    """
    pattern, *others = prompt.strip().removesuffix(":").split() or [""]
    wrong = [part for part in others if len(part) != 2 or part[0] not in "+-" or part[1] not in LETTERS]
    if not pattern or not set(pattern) <= set(LETTERS + ".") or wrong:
        raise ValueError(f"{prompt!r} is no pattern such as 'a..c. +e -b:'")
    in_place = [_in_place(place, letter) for place, letter in enumerate(pattern) if letter != "."]
    return [lambda word: len(word) == len(pattern), *in_place, *(_has(*part) for part in others)]


def _in_place(place: int, letter: str) -> Rule:
    return lambda word: word[place : place + 1] == letter


def _has(sign: str, letter: str) -> Rule:
    return lambda word: (letter in word) == (sign == "+")
