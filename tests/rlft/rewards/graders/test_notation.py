from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.rewards.graders.latex import (
    capital_names,
    named_value,
    plain_latex,
    recurring_decimal,
    same_words,
    without_unit,
    words_of,
)

PLAIN = {
    r"\left( 1,\,2 \right)": "( 1, 2 )", r"\bigl(1\bigr)": "(1)", r"\dfrac12": r"\frac12", r"12\,345": "12345",
    r"12,\!345": "12,345", r"12{,}345": "12,345", r"\textbf{odd}": r"\text{odd}", r"\lvert x\rvert": "| x|",
    r"30^{\circ}": "30°", "30°": "30°", r"\$18.50": "18.50", "$x$.": "x", r"50\%": "50%", r"\{ \}": r"\emptyset",
    r"\leftarrow": r"\leftarrow", r"\midpoint": r"\midpoint", r"\begin{pmatrix}1\\ 2\end{pmatrix}":
    r"\begin{pmatrix}1\\ 2\end{pmatrix}",
}  # fmt: skip


@pytest.mark.parametrize(("text", "plain"), PLAIN.items())
def test_one_spelling(text, plain):
    assert plain_latex(text) == plain


@pytest.mark.parametrize(
    ("plain", "value"),
    [
        (r"5\text{ cm}", "5"),
        (r"2\sqrt{3}\text{ cm}^{2}", r"2\sqrt{3}"),
        ("30°", "30"),
        ("(-3)", "-3"),
        (r"5\text{ thousand}", r"5\text{ thousand}"),  # changes the number
        (r"\text{cm}", r"\text{cm}"),  # nothing to be a unit of
        (r"x=1\text{ or }2", r"x=1\text{ or }2"),
    ],
)
def test_units_go_without_saying(plain, value):
    assert without_unit(plain) == value


@pytest.mark.parametrize(
    ("plain", "named"),
    [
        ("x = 5", ("x", "5")),
        ("f(x)=x^2", ("f(x)", "x^2")),
        (r"\theta = 30", (r"\theta", "30")),
        ("a_{12} = 5", ("a_{12}", "5")),
        (r"x \in [0,1]", ("x", "[0,1]")),
        (r"\angle ABC = 30", (r"\angleABC", "30")),
        ("2x = 4", None),
        ("x = y = 4", None),
        ("x <= 4", None),
        ("x", None),
    ],
)
def test_names_of_values(plain, named):
    assert named_value(plain) == named


@pytest.mark.parametrize(
    ("plain", "words"),
    [
        (r"\text{Ann  Lee}", "ann lee"),
        ("Monday", "monday"),
        ("(B)", "b"),
        (r"\text{(B)}", "b"),
        ("3:30", "3:30"),
        (r"3:30 \text{ p.m.}", "3:30pm"),
        ("101_{2}", "101_2"),
        ("xyz", None),
        ("AB", None),
        ("x+1", None),
        ("a_1", None),
    ],
)
def test_words(plain, words):
    assert words_of(plain) == words


def test_the_same_words():
    assert same_words("no", "No")
    assert same_words("101_2", "101")
    assert not same_words("101_2", "5")
    assert not same_words("ann", r"\text{Ann or Bob}")


def test_capitals_side_by_side():
    assert capital_names("AB+CD") == capital_names(r"C \cdot D + A B") == ["AB", "CD"]
    assert capital_names(r"A+\Pi xy") == []


def test_recurring_decimals():
    # 0.1(6) = 1/10 + 6/90 = 1/6; -1.(09) = -(1 + 9/99) = -12/11.
    assert recurring_decimal(r"0.1\overline{6}") == Fraction(1, 6)
    assert recurring_decimal(r"-1.\overline{09}") == Fraction(-12, 11)
    assert recurring_decimal(r"0.5") is None


@given(st.text())
def test_any_text_is_taken(text):
    plain = plain_latex(text)
    for read in (without_unit, named_value, words_of, capital_names, recurring_decimal):
        read(plain)
