import logging
import threading
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlft.rewards.latex import boxed_answer, latex_number, may_be_parsed
from rlft.rewards.symbolic import same_answer

NUMBERS = {
    r"\frac{1}{2}": "1/2", r"\frac12": "1/2", r"-\dfrac{10}{4}": "-5/2", r"1\frac{1}{2}": "3/2", r"-1\tfrac12": "-3/2",
    r"$\frac{1}{2}$.": "1/2", r"1.5\cdot10^3": "1500", r"1.5 \times 10^{3}": "1500", r"2*10^{-4}": "1/5000",
    r"-2\cdot 10^2": "-200", r"10^6": "1000000", r"-10^{12}": "-1000000000000",
}  # fmt: skip
NO_NUMBERS = [
    "", "18", r"\frac{1}{0}", r"\frac{x}{2}", r"\frac{1}{2}+1", r"\frac{1}{2}, \frac{1}{3}", r"2^{10}", "2+3",
    r"3\cdot 4", r"10^{10^8}", r"10^{999}", r"10^10^8", r"1.5\cdot10^3\cdot10^3", r"\sqrt{4}",
    r"\frac{1}{2}\frac{1}{2}",    r"\frac123", r"5\frac{7}{3}", r"5\frac{0}{3}", "1" * 201, r"10^100",
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), NUMBERS.items())
def test_reads_numbers(text, value):
    assert latex_number(text) == Fraction(value)


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_reads_nothing_that_is_not_one_number(text):
    assert latex_number(text) is None


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 99), st.integers(0, 20))
def test_reads_numbers_as_math_verify_does(over, more, whole, exponent):
    from math_verify import parse

    under = over + more  # a mixed number has a proper fraction

    for text in (
        rf"\frac{{{over}}}{{{under}}}",
        rf"{whole}\frac{{{over}}}{{{under}}}",
        rf"{whole}\cdot10^{{{exponent}}}",
    ):
        (value, *_) = parse(rf"\boxed{{{text}}}", parsing_timeout=0)
        number = value.doit()
        assert latex_number(text) == Fraction(int(number.p), int(number.q))


def test_one_box_and_no_other():
    assert boxed_answer(r"so \boxed{\frac{1}{2}}.") == r"\frac{1}{2}"
    assert [boxed_answer(text) for text in (r"\boxed{1", "1", r"\boxed{1} \boxed{1}", "")] == [None] * 4


SAME = [
    ("x^2-1", "(x-1)(x+1)"),
    (r"\frac{\sqrt{3}}{2}", r"\frac{3}{2\sqrt3}"),
    (r"\frac{\sqrt{3}}{2}", r"$\frac{\sqrt 3}{2}$"),
    (r"2\pi", r"\pi \cdot 2"),
    ("x+1", "y = x+1"),
    ("y = 2x+1", "2x+1"),
    (r"\{1,2\}", "2, 1"),
    ("x>1", "1<x"),
    ("[0,1)", "[0,1)"),
    (r"e^{-x^2}", r"\frac{1}{e^{x^2}}"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
    (r"\text{Evelyn}", r"\text{evelyn}"),
    ("X+1", "x+1"),
    (r"\{4\}", r"\{2^2\}"),
]


@pytest.mark.parametrize(("gold", "answer"), SAME)
def test_equal_answers(gold, answer):
    assert same_answer(gold, answer)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        (r"\sqrt{2}", r"-\sqrt{2}"),
        (r"\sqrt{2}", "1.41421356237309504880"),  # rounded
        (r"\frac{\pi}{6}", r"\arcsin(\frac12)"),  # not worked out
        (r"\sqrt{2}", r"\sqrt{2}+1-1+2-2"),
        ("x", r"x=1 \text{ or } x"),
        ("x+1", "x+1, x+2"),
        ("x+1", r"\{x+1\}"),
        (r"\{1,2\}", r"\{1,2,3\}"),
        (r"\{1,2\}", "1"),
        ("(1,2)", "(2,1)"),
        ("(1,2)", r"\{1,2\}"),
        ("x+1", "x+1=x+1"),
        ("x+1", ""),
        (r"\sqrt{2}", "all of them"),
        (r"\sqrt{2}", r"\int x dx"),
    ],
)
def test_different_or_unfinished_answers(gold, answer):
    assert not same_answer(gold, answer)


def test_a_gold_that_cannot_be_read_is_an_error():
    with pytest.raises(ValueError, match="cannot be read as one LaTeX expression"):
        same_answer(r"\int x dx", "x")


HUGE = [
    "10^{10^8}", "10^10^8", "10**10**8", r"{10^{10}}^{8888}", "(2^{999})^{999}", "2^{9999}", "2^{999*999}", "21!",
    "2^{20!}",
    "e^{e^{e^{9}}}", r"x^{\exp(\exp(9))}", "1" * 41, "x" * 201, r"2^{\frac{10^9}{1}}", r"9^{(9)^{9}}",
    "((9^{99})^{99})^{99}",
    "2^9^9^9", r"\binom{1000000}{500000}", r"\sum_{n=1}^{9} n", r"\prod x",
]  # fmt: skip


@pytest.mark.parametrize("text", HUGE)
def test_what_takes_long_is_not_parsed(text):
    started = time.perf_counter()
    assert not may_be_parsed(text)
    assert not same_answer("x", text)
    assert time.perf_counter() - started < 5  # the first to run imports sympy


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        (r"\log 2", "1000000"),  # less each other: log(2/10^1000000)
        (r"\log x", "9" * 40),
        (r"x^2-1", "(x+1)^{1000}"),
        (r"\sin x", r"\sin(x)^{1000}"),
        ("1+i", "(1+i)^{999}"),
        (r"\begin{pmatrix}x\\2\end{pmatrix}", r"\begin{pmatrix}(x+1)^{999}\\2\end{pmatrix}"),
        ("y=2x", "y=(x+1)^{999}"),
        ("2x+3y=1", "2x+(y+1)^{999}=1"),
        ("x<2", "(x+1)^{999}<2"),
        (r"\{x,1\}", r"\{(x+1)^{999},1\}"),
    ],
)
def test_what_has_another_value_is_told_apart_without_algebra(gold, answer):
    same_answer(gold, "1")  # the first comparison imports sympy
    started = time.perf_counter()
    assert not same_answer(gold, answer)
    assert time.perf_counter() - started < 5  # without the comparison of values: a minute, or no end


def test_compares_outside_the_main_thread_and_says_nothing(caplog):
    results = []
    thread = threading.Thread(target=lambda: results.append(same_answer("x^2-1", "(x-1)(x+1)")))
    with caplog.at_level(logging.DEBUG):
        thread.start()
        thread.join(60)
    assert results == [True]
    assert caplog.records == []
    assert not logging.getLogger("math_verify.parser").disabled


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=r"0123456789xye\{}^()+-*/=.,<> ", max_size=40))
def test_never_raises(text):
    latex_number(text)
    same_answer("x+1", text)
