"""Whatever a model writes is read in a time that grows with its length, and never ends in a crash.

A regular expression holds the interpreter's lock while it runs: one that is quadratic stops every rollout and score.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import get_args

import pytest

from rlft.config.environment import PLAIN
from rlft.config.section import SPECIFICATION
from rlft.environments.calculator import Calculator, calculate, expression_of
from rlft.environments.code import complete, extract_code
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.loading import load_environment
from rlft.environments.contract.marks import ToolArgumentsError, ToolSpec
from rlft.environments.gsm8k import GSM8K, Form
from rlft.environments.maths import Maths
from rlft.environments.press_releases import PressReleases
from rlft.environments.reasoning_gym import score_answer
from rlft.environments.search_index import Document, Lexical
from rlft.environments.snips_slots import SnipsSlots
from rlft.environments.stories import Stories
from rlft.evaluation.gates import normalise_text
from rlft.harness.asked import read_served
from rlft.harness.chat.formats import FORMATS, LLAMA3_TAGGED
from rlft.harness.chat.marks import Marks
from rlft.harness.dialogue import printable
from rlft.rewards.graders.expressions import exact_value
from rlft.rewards.graders.json_values import read_json_object
from rlft.rewards.graders.lists import declared_answer, token_f1
from rlft.tasks.contamination import find_contamination
from rlft.texts.characters import visible, visible_json
from rlft.types import Trajectory
from tests.rlft.attempts import make_task
from tests.rlft.harness.chat.tokenizers import make_tokenizer

SIZE = 200_000
SMALL = SIZE // 16
# Of the CPU time, from SMALL to SIZE: 16 if it grows with the length, 256 with its square. In the middle, since caches
# that are shared with what else runs slow down the large text up to 2.5 times as much as the small one.
MOST_GROWTH = 64.0
LEAST_SECONDS = 0.016  # for SIZE characters; what is quicker has little to grow from, and clocks are too coarse for it

# Each makes about so many characters.
SHAPES: dict[str, Callable[[int], str]] = {
    "letters": lambda n: "a" * n,
    "sentences": lambda n: "".join(f"He saw {_word(i)} and her. " for i in range(n // 20)),
    "spaces and a letter": lambda n: " " * n + "x",
    "a sum": lambda n: "1+" * (n // 2) + "1",
    "braces": lambda n: "{" * n,
    "a full box": lambda n: "\\boxed{x" + " " * n + "y}",
    "blocks in a list": lambda n: "  ```\n  x\n  ```\n" * (n // 16),
    "hermes calls, open": lambda n: "<tool_call>{" * (n // 12),
    "different marks on one letter": lambda n: "a" + "\u0301\u0327" * (n // 2),
    "a mixture": lambda n: '{"a\\": [1, <think> ```\n $x$ \u202e}' * (n // 32),
}
TASK = make_task("t", "How much is 2 + 3?", "5", word="moon", intent="GetWeather")


def _word(number: int) -> str:
    """A word of four letters or more, another one for every number."""
    return "w" + "".join(chr(97 + int(digit)) for digit in f"{number:03d}")


def attempt(text: str) -> Trajectory:
    return Trajectory([{"role": "assistant", "content": text}], task=TASK)


def scored(environment: BaseEnv, ground_truth: object = "5") -> Callable[[str], None]:
    """Score a text and read its final answer, as is done for every rollout."""

    def score(text: str) -> None:
        asyncio.run(environment.compute_reward(attempt(text), ground_truth))
        environment.final_answer(attempt(text))

    return score


@cache
def lexical() -> Lexical:
    return Lexical([Document(str(i), f"Title {i}", "Some words are here. And there.") for i in range(20)], "english")


def compared(text: str) -> None:
    """As a task's prompt, with a train task that holds the text and more: every run of words is found."""
    find_contamination({"test": [make_task("t", text, None)]}, [make_task("u", f"{text} and more", None)])


def search(text: str) -> None:
    """Without the stems of earlier calls, whose number decides what is still remembered."""
    lexical()._stem.cache_clear()
    lexical().scores(text)


@cache
def marks() -> Marks:
    return Marks(make_tokenizer("qwen3"))


READERS: dict[str, Callable[[str], object]] = {
    "extract_code": extract_code.__wrapped__,  # the last text is kept
    "complete": lambda text: complete("def f():\n    x\n", "x\n" + text, "f"),
    "stories": scored(Stories(), "moon"),
    **{f"gsm8k, {form}": scored(GSM8K(form)) for form in get_args(Form)},
    "maths, a number": scored(Maths()),
    "maths, an expression": scored(Maths(), "x+1"),
    "calculator": lambda text: Calculator().correct(text, "5"),
    "calculate": calculate,
    "expression_of": lambda text: expression_of(make_task("t", text, "5")),
    "literal": lambda text: score_answer(None, "n_queens", text, {"answer": "", "metadata": {}}),
    "exact_value": exact_value,
    "snips": scored(SnipsSlots(tools=False), []),
    "press releases": lambda text: PressReleases(tools=False).final_answer(attempt(text)),
    "read_json_object": read_json_object,
    "declared_answer": lambda text: declared_answer(attempt(text)),
    "token_f1": lambda text: token_f1(text, ["a word"]),
    **{f"calls, {name}": form.parse for name, form in FORMATS.items()},
    "calls, llama3 without tools": LLAMA3_TAGGED.parse,
    "served, content": lambda text: read_served({"content": text}),
    "served, a call": lambda text: read_served({"tool_calls": [{"function": {"name": "a", "arguments": text}}]}),
    "search": search,
    "contamination": compared,
    "normalise_text": normalise_text,
    "printable": printable,
    "told by a tool": lambda text: marks().shield([{"role": "tool", "content": text}]),  # it may repeat the model
    "visible": visible,
    "visible_json": visible_json,
}
WRITTEN = {
    "exact": {"type": "exact", "read": {"after": "Answer:"}},
    "a JSON path": {"type": "exact", "read": {"json_path": "$..a"}},
    "contains": {"type": "contains", "texts": ["a", "word"]},
    "lacks": {"type": "lacks", "texts": ["sorry", "\u0441"]},
    "lines": {"type": "length", "measured": "lines", "at_most": 3},
    "number": {"type": "number"},
    "date": {"type": "date", "gold": "2014-03-03"},
    "list": {"type": "list", "ordered": True},
    "a form": {"type": "json_schema", "json_schema": {"properties": {"a": {"uniqueItems": True}}}},
}
READERS |= {
    f"specification, {name}": scored(
        load_environment(
            PLAIN, {SPECIFICATION: json.dumps({"criteria": {"right": {"says": "It is right.", "grader": grader}}})}
        )
    )
    for name, grader in WRITTEN.items()
}
WRONG_TEXT = (ValueError, ZeroDivisionError)  # what tools and parsers of answers raise for it; the model is told


def seconds(reader: Callable[[str], object], text: str, repeats: int) -> float:
    """CPU time of this thread, the least of some: what else the machine does only adds to it.

    Without the collector of garbage, which walks through all that this process has imported.
    """
    taken = []
    gc.disable()
    try:
        for _ in range(repeats):
            started = time.thread_time()
            with suppress(*WRONG_TEXT):
                reader(text)
            taken.append(time.thread_time() - started)
    finally:
        gc.enable()
    return min(taken)


def growth(reader: Callable[[str], object], shape: Callable[[int], str]) -> float:
    """How many times longer sixteen times the text takes; 0 where there is too little to measure.

    The least of some measurements if the first is too much: a machine that is busy for a while slows down both sizes of
    one measurement, and a moment in which it is not must not be set against another in which it is.
    """
    least = float("inf")
    for repeats in (1, 2, 3, 4, 5, 6, 7, 8):
        large = seconds(reader, shape(SIZE), repeats)
        if large < LEAST_SECONDS:
            return 0.0
        least = min(least, large / seconds(reader, shape(SMALL), 16 * repeats))
        if least <= MOST_GROWTH:
            break
    return least


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_sixteen_times_the_text_takes_little_more_than_sixteen_times_the_time(name):
    seconds(READERS[name], "It is 5.", 1)  # imports and caches
    grown = {each: growth(READERS[name], shape) for each, shape in SHAPES.items()}
    assert {each: round(times, 1) for each, times in grown.items() if times > MOST_GROWTH} == {}


@pytest.mark.slow
def test_the_measure_finds_what_is_quadratic():
    # A sum for every 12,500 letters of the text, each of as many numbers as it has letters: 16 * 16 times as long.
    def quadratic(text: str) -> None:
        for _ in text[::12_500]:
            sum(range(len(text)))

    assert any(growth(quadratic, lambda n: "a" * n) > MOST_GROWTH for _ in range(3))


@pytest.mark.parametrize("piece", ["[", "{", '{"a":'])
def test_what_is_nested_too_deep_is_no_answer(piece):
    text = piece * (SIZE // len(piece))
    assert read_json_object(text + "}") is None
    for form in FORMATS.values():
        parsed = form.parse(f"{form.marks[0]}{text}")
        assert parsed.tool_calls == ()
        assert len(parsed.problems) == 1


def test_arguments_that_must_all_differ_are_compared_at_once():
    schema = {"type": "object", "properties": {"x": {"type": "array", "uniqueItems": True}}}
    tool = ToolSpec("take", "Take them.", schema)

    def take(text: str) -> None:
        tool.read_arguments(json.loads(text))

    def objects(n: int) -> str:
        return json.dumps({"x": [{"a": i} if i % 2 else i for i in range(n // 10)]})

    assert seconds(take, objects(20_000), 1) < 1  # before anything large is tried
    assert growth(take, objects) <= MOST_GROWTH
    assert tool.read_arguments({"x": [1, True, "1", [1], [True], {"a": 1}, {"a": True}, None]})
    for twice in ([1, 1.0], [{"a": [1]}, {"a": [1.0]}], [[], []], [None, None]):
        with pytest.raises(ToolArgumentsError, match="has a value twice"):
            tool.read_arguments({"x": twice})
