import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlft.rewards.graders.latex import boxed_answer, latex_number, may_be_parsed

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


HUGE = [
    "10^{10^8}", "10^10^8", "10**10**8", r"{10^{10}}^{8888}", "(2^{999})^{999}", "2^{9999}", "2^{999*999}", "21!",
    "2^{20!}",
    "e^{e^{e^{9}}}", r"x^{\exp(\exp(9))}", "1" * 41, "x" * 201, r"2^{\frac{10^9}{1}}", r"9^{(9)^{9}}",
    "((9^{99})^{99})^{99}",
    "2^9^9^9", r"\binom{1000000}{500000}", r"\sum_{n=1}^{9} n", r"\prod x",
]  # fmt: skip


@pytest.mark.parametrize(("opening", "closing"), [("(", ")"), ("{", "}"), ("[", "]"), (r"\frac{1}{", "}"), ("[", ")")])
def test_six_groups_stand_within_each_other_at_most(opening, closing):
    assert may_be_parsed(opening * 6 + "x" + closing * 6 + "+" + opening * 6 + "x" + closing * 6)
    assert not may_be_parsed(opening * 7 + "x" + closing * 7)
    assert not may_be_parsed(opening * 7 + "x")


def test_four_absolute_values_are_parsed_at_most():
    assert may_be_parsed("|x|+|y|+|x+1|+|y+1|")
    assert not may_be_parsed("|" * 5 + "x" + "|" * 5)


@pytest.mark.parametrize(
    "text", ["n!", "20!", "(n-1)!", r"\frac{n!}{k!(n-k)!}", r"\binom{n}{2}", r"\binom{99}{50}", "(2^9)^9"]
)
def test_small_factorials_and_powers_are_parsed(text):
    assert may_be_parsed(text)


@pytest.mark.parametrize("text", HUGE)
def test_what_takes_long_is_not_parsed(text):
    started = time.perf_counter()
    assert not may_be_parsed(text)
    assert time.perf_counter() - started < 1


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=r"0123456789xye\{}^()+-*/=.,<>! ", max_size=40))
def test_never_raises(text):
    latex_number(text)
    may_be_parsed(text)
