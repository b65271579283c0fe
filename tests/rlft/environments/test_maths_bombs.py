"""Answers made to hurt a run: each gets a verdict, in bounded time and memory, whatever its length."""

import asyncio
import subprocess
import sys
import textwrap
import time

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlft.config import RewardConfig
from rlft.environments.maths import Maths
from rlft.rewards.scoring import score_rollouts
from rlft.types import Rollouts, Trajectory
from tests.rlft.attempts import attempt, make_task

GOLDS = ("x+1", "12", r"\{1,2\}", r"\text{Ann}")
SECONDS = 10  # of CPU; measured are at most 0.6, the first to run imports sympy


def nested(opening, inside, closing, times):
    return opening * times + inside + closing * times


def repeated(times):
    """Shapes of answers by name, with their pieces so many times."""
    return {
        "parentheses": nested("(", "x", ")", times),
        "fractions": nested(r"\frac{1}{", "x", "}", times),
        "powers": nested("x^{", "x", "}", times),
        "tower": nested("9^{", "9", "}", times),
        "texts": nested(r"\text{", "x", "}", times),
        "sum-of-roots": "+".join(rf"\sqrt{{{n}}}" for n in range(times)),
        "product-of-sums": "(x+y)" * times,
        "variables": "".join(f"x_{{{n}}}" for n in range(times)),
        "digits": "9" * times,
        "recurring": r"0.\overline{" + "3" * times + "}",
        "factorials": "9" + "!" * times,
        "matrices": nested(r"\begin{pmatrix}", "x", r"\end{pmatrix}", times),
    }


HUGE = {
    "9^{9^{9^9}}", "(9^{999})!", r"\binom{10^9}{10^8}", "10^{-999999999}", r"\prod_{n=1}^{10^9} n",
    r"\int_0^{10^9} x^x dx", "1e999999999", r"[0,10^{999}]\setminus\{1\}", r"\sin(10^{999})^{999}",
    r"(1+\sqrt{2})^{999}",
}  # fmt: skip

MATRIX = r"\begin{pmatrix}1&2&3\\4&5&6\\7&8&10\end{pmatrix}"
LETTERS = r"\begin{pmatrix}x&y&z\\ y&z&1\\ z&1&x\end{pmatrix}"
# Each is the gold's kind and size, and most have nearly its value where x = 0.3717, y = x + 1/7 and z = x + 2/7.
COSTLY = {
    "power": ("x+1", "(x+0.62861641726)^{999}"),  # 1.3717^(1/999) - 0.3717
    "power-below": ("x+1", r"\frac{1}{(x+0.62798444)^{999}}"),
    "power-in-list": ("(x,y)", r"((x+y+1)^{30},(x+y+z+1)^{29})"),
    "power-in-equation": ("x+y+z=1", "(x+y+z+1)^{30}=1"),
    "equal-in-the-end": ("a+b+c+x+y+z", r"\frac{(x^2+2x+1)^{15}(a+b+c+x+y+z)}{(x+1)^{30}}"),
    "matrix-to-n-twice": (MATRIX, "(" + MATRIX + "^{2})^{n}"),
    "matrix-root": (MATRIX, rf"\sqrt{{{MATRIX}}}"),
    "matrix-function": (MATRIX, rf"\sin({MATRIX})"),
    "matrix-of-letters-inverted": (MATRIX, LETTERS + "^{-1}"),
    "sum-to-n": ("n^2", r"\sum_{k=1}^{n} (2k-1)^{99}"),
}


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
@pytest.mark.parametrize("length", [190, 100_000])
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
def test_what_would_be_huge_is_wrong_at_once(answer):
    assert_quick(answer)


@pytest.mark.parametrize(("gold", "answer"), COSTLY.values(), ids=COSTLY)
def test_what_has_the_form_of_its_gold_and_no_end_is_wrong_at_once(gold, answer):
    assert_quick(answer, gold)


@pytest.mark.parametrize(
    "gold", ["x+1", r"\sqrt{2}", r"\{1,2\}", "[0,1]", "x>3", r"\mathbb{R}", r"n\in\mathbb{N}", "(1,2,3)"]
)
@pytest.mark.parametrize(
    "answer",
    [r"\mathbb{Z}", r"x\in\mathbb{Q}", r"\mathbb{Z}\setminus\{0\}", r"\{0\}\cup\mathbb{N}", r"(\mathbb{Z},1,2)"],
)
def test_a_set_without_end_is_wrong_at_once(gold, answer):
    assert_quick(answer, gold)
    assert_quick("77", answer)


def test_a_number_cannot_be_fitted_to_its_gold():
    # c such that (sqrt(3) - c)^999 is sqrt(2) to 35 digits.
    mp = mpmath.mp.clone()
    mp.dps = 60
    shift = mp.nstr(mp.sqrt(3) - mp.sqrt(2) ** (mp.mpf(1) / 999), 38)
    assert_quick(rf"(\sqrt{{3}}-{shift})^{{999}}", r"\sqrt{2}")


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("(x+1)^{10}", "(1+x)^{10}"),
        ("x^4+4x^3+6x^2+4x+1", "(x+1)^4"),
        ("(x+1)^3", "x^3+3x^2+3x+1"),
        ("(x+y+z)^{99}", "(z+y+x)^{99}"),  # 5050 terms, and the gold's own
        ("(x+1)^{1000}", "(1+x)^{1000}"),
        (r"\frac{1}{(x+1)^{12}}", "(x+1)^{-12}"),
        (r"\begin{pmatrix}2^n&0\\0&1\end{pmatrix}", r"\begin{pmatrix}2^n&0\\0&1^n\end{pmatrix}"),
    ],
)
def test_what_is_large_and_equal_is_right(gold, answer):
    assert score(answer, gold)["correct"] == 1.0


def test_answers_that_are_nested_deeply_are_scored_like_any_other():
    task = make_task("m", "What is it?", "x+1")
    bombs = [rf"\boxed{{{nested('(', str(n), ')', 60)}}}" for n in range(8)]
    rollouts = Rollouts(tuple(attempt(task, text, Maths()) for text in [*bombs, r"\boxed{1+x}"]))
    rewards = score_rollouts(rollouts, {"m": task}, Maths(), RewardConfig(timeout_seconds=30.0))
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


@pytest.mark.slow
def test_no_answer_takes_much_memory():
    # In a process that may have 2 GiB of addresses: a computation that wants more raises MemoryError there.
    program = """
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
        from rlft.rewards.graders.symbolic import same_answer
        from tests.rlft.environments.test_maths_bombs import HUGE, repeated
        for text in [*HUGE, *(text[:200] for text in repeated(6).values())]:
            same_answer("x+1", text)
        print("all answered")
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=300, check=False
    )
    assert run.stdout == "all answered\n", run.stderr[-2000:]
