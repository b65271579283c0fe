"""Answers made to hurt a run: each gets a verdict, in bounded time and memory, whatever its length."""

import asyncio
import subprocess
import sys
import textwrap
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlft.environments.maths import Maths
from rlft.rewards.scoring import score_rollouts
from rlft.types import Rollouts, Trajectory
from tests.rlft.rewards.attempts import attempt, make_task

GOLDS = ("x+1", "12", r"\{1,2\}", r"\text{Ann}")
SECONDS = 10  # of CPU; measured are at most 0.6, the first to run imports sympy


def nested(opening, inside, closing, times):
    return opening * times + inside + closing * times


def repeated(times):
    """Shapes of answers by name, with their pieces so many times."""
    return {
        "parentheses": nested("(", "x", ")", times),
        "braces": nested("{", "x", "}", times),
        "brackets": nested("[", "x", "]", times),
        "left-right": nested(r"\left(", "x", r"\right)", times),
        "absolute": nested("|", "x", "|", times),
        "sets": nested(r"\{", "x", r"\}", times),
        "fractions": nested(r"\frac{1}{", "x", "}", times),
        "roots": nested(r"\sqrt{", "x", "}", times),
        "powers": nested("x^{", "x", "}", times),
        "tower": nested("9^{", "9", "}", times),
        "indices": nested("x_{", "x", "}", times),
        "sines": nested(r"\sin(", "x", ")", times),
        "logarithms": nested(r"\log_{2}(", "x", ")", times),
        "exponentials": nested(r"\exp(", "x", ")", times),
        "texts": nested(r"\text{", "x", "}", times),
        "functions": nested("f(", "x", ")", times),
        "minuses": "-" * times + "x",
        "sum": "+".join(["x"] * times),
        "sum-of-roots": "+".join(rf"\sqrt{{{n}}}" for n in range(times)),
        "product-of-sums": "(x+y)" * times,
        "list": ",".join(map(str, range(times))),
        "unions": r"\cup".join(["(0,1)"] * times),
        "chain": "<".join(["x"] * times),
        "equations": "=".join(["x"] * times),
        "or": r"\text{ or }".join(["x"] * times),
        "plus-minus": r"\pm".join(["1"] * times),
        "variables": "".join(f"x_{{{n}}}" for n in range(times)),
        "letters": "abcdefgh" * times,
        "digits": "9" * times,
        "decimals": "0." + "3" * times,
        "recurring": r"0.\overline{" + "3" * times + "}",
        "factorials": "9" + "!" * times,
        "matrix": r"\begin{pmatrix}" + "&".join(["x"] * times) + r"\end{pmatrix}",
        "matrices": nested(r"\begin{pmatrix}", "x", r"\end{pmatrix}", times),
        "boxes": r"\boxed{" * times + "x" + "}" * times,
        "commands": "\\" * times,
        "spaces": " " * times + "x",
        "dollars": "$" * times,
    }


HUGE = {
    "9^{9^{9^9}}", "2^{10^{10}}", "10000000!", "20!^{999}", "(9^{999})!", "9!!!!!", r"\binom{10^9}{10^8}",
    "10^{-999999999}",
    r"\sum_{n=1}^{10^9} n", r"\prod_{n=1}^{10^9} n", r"\int_0^{10^9} x^x dx", r"\lim_{x\to\infty} x^x", "1e999999999",
    r"[0,10^{999}]\setminus\{1\}", r"\sin(10^{999})^{999}", r"\log_{10^{-999}}(10^{999})", r"\sqrt[999]{10^{999}}",
    r"(1+\sqrt{2})^{999}", r"0.\overline{" + "9" * 60 + "}",
}  # fmt: skip


def score(answer, gold, box=r"\boxed{%s}"):
    task = make_task("m", "What is it?", gold)
    completion = Trajectory([{"role": "assistant", "content": box.replace("%s", answer)}], task=task)
    parts = asyncio.run(Maths().compute_reward(completion, gold))
    Maths().final_answer(completion)
    return parts


def assert_quick(answer, gold="x+1", box=r"\boxed{%s}"):
    started = time.process_time()
    parts = score(answer, gold, box)
    assert set(parts.values()) <= {0.0, 1.0}
    assert parts["correct"] == 0.0
    assert time.process_time() - started < SECONDS


@pytest.mark.parametrize("shape", repeated(1))
@pytest.mark.parametrize("length", [60, 190, 100_000])
def test_whatever_is_repeated_is_wrong_at_once(shape, length):
    times = max(2, length // len(repeated(1)[shape]))
    assert_quick(repeated(times)[shape][: 2 * length])


@pytest.mark.parametrize("shape", repeated(1))
def test_what_is_never_closed_is_wrong_at_once(shape):
    for length in (150, 100_000):
        piece = repeated(length)[shape][:length]
        assert_quick(piece)
        assert_quick(piece, box=r"\boxed{%s")
        assert_quick(piece, box="%s")


@pytest.mark.parametrize("answer", sorted(HUGE))
@pytest.mark.parametrize("gold", ["x+1", r"\{1,2\}"])
def test_what_would_be_huge_is_wrong_at_once(answer, gold):
    assert_quick(answer, gold)


def test_answers_that_are_nested_deeply_are_scored_like_any_other():
    task = make_task("m", "What is it?", "x+1")
    bombs = [rf"\boxed{{{nested('(', str(n), ')', 60)}}}" for n in range(8)]
    rollouts = Rollouts(tuple(attempt(task, text, Maths()) for text in [*bombs, r"\boxed{1+x}"]))
    rewards = score_rollouts(rollouts, {"m": task}, Maths(), weights={}, full=None, timeout_seconds=30.0)
    assert [row.parts.get("correct") for row in rewards.rows] == [0.0] * 8 + [1.0]


PIECES = st.sampled_from([
    "(", ")", "{", "}", "[", "]", "|", "^", "_", "-", "+", ",", "=", "<", "!", " ", "/", ".", ":", "%", "x", "y", "A",
    "12", "99", "0.", r"\frac", r"\sqrt", r"\text{", r"\pm", r"\cup", r"\binom", r"\overline{", r"\infty", r"\{", r"\}",
    r"\left", r"\right", r"\sin", r"\log_", r"\begin{pmatrix}", r"\end{pmatrix}", r"\\", "&", r"\$", "$", r"\circ",
    r"\in", r"\boxed{", "f(x)=",
])  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(st.text(max_size=220), st.lists(PIECES, max_size=60).map("".join)),
    st.sampled_from(GOLDS),
    st.sampled_from([r"\boxed{%s}", r"\boxed{%s", "%s"]),
)
def test_every_text_gets_a_verdict(answer, gold, box):
    started = time.process_time()
    assert set(score(answer, gold, box).values()) <= {0.0, 1.0}
    assert time.process_time() - started < SECONDS


def test_no_answer_takes_much_memory():
    # In a process that may have 2 GiB of addresses: a computation that wants more raises MemoryError there.
    program = """
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
        from rlft.rewards.symbolic import same_answer
        from tests.rlft.environments.test_maths_bombs import HUGE, repeated
        for text in [*HUGE, *(text[:200] for text in repeated(6).values())]:
            same_answer("x+1", text)
        print("all answered")
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=300, check=False
    )
    assert run.stdout == "all answered\n", run.stderr[-2000:]
