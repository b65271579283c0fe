from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlft.rewards.graders.numbers import format_number, parse_number

READ = {
    "18": "18", "18.0": "18", "$18.00": "18", "18.": "18", "**18**": "18", "$18$": "18", "+5": "5", "007": "7",
    "1,000": "1000", "12,345,678": "12345678", "1,000.50": "1000.5", ".5": "0.5", "1/2": "0.5", "1 1/2": "3/2",
    "½": "1/2", "1½": "3/2", "-½": "-1/2", "-1 1/2": "-3/2", "1\u20442": "1/2", "\u22125": "-5", "\u20135": "-5",
    "-$5": "-5", "$-5": "-5", "$ 5": "5", "€18": "18", "50%": "50", "50¢": "50", "\xa018\xa0": "18", "18\u200b": "18",
    "18 eggs per day": "18", "60 miles/hour": "60", "$5/hour": "5", "18cm": "18", "18 m²": "18", "90°": "90",
    "\\frac{1}{2}": "1/2", "\\$18": "18", "1{,}000": "1000", "18\\%": "18", "18\\text{ dollars}": "18",
    "\uff14\uff12": "42", "\u0664\u0662": "42", "\u0663\u066b\u0665": "7/2",
    "\uff11\uff0c\uff10\uff10\uff10\u3002": "1000",
    "1 000": "1000", "12\u202f345\u2009678.5": "12345678.5", "$1 000": "1000", "42\u3002": "42", "\\(42\\)": "42",
    "$$42$$.": "42", "\\[42\\]": "42", "\\textbf{42}": "42", "18 m^2": "18", "18 m2": "18", "18 m/s^2": "18",
    "18 cm^{3}": "18", "5 \u5343\u514b": "5", "5 \u5143": "5",
    "\\boxed{42}": "42", "$\\boxed{42}$": "42", "\\boxed{1{,}000}": "1000", "-\\boxed{\\frac{1}{2}}": "-1/2",
    "$42$ kg": "42", "18 st": "18", "18 pairs": "18", "18 more": "18", "1/4th": "1/4", "2/5ths": "2/5",
    "18 seconds": "18", "18 pairs of shoes": "18", "18 double-decker buses": "18", "18 square feet": "18",
}  # fmt: skip

NOT_READ = [
    "", ".", "-", "eighteen", "x = 5", "3, 4, 5", "1 or 2", "3-4", "3:4", "5+6", "2 x 9", "1 2", "1.2.3", "1/2/3",
    "18 dollars and 20 cents", "1 or two", "1,00", "100,00", "0,123", "12,345,67", "1 00", "1 0000", "1,000 000", "1/0",
    "18 thousand",
    "2 thirds", "18 k", "5 squared", "18²", "18!", "--5", "-$-5", "+-5", "1e3", "1e999999999", "Ⅷ", "18..",
    "~18", "18 not 19", "9" * 65, "nan", "inf", "infinity", "2 lakh", "2 lakhs", "3 crore", "3 Crores", "7 tens",
    "2 gross", "3 tenths", "1 hundredth", "5 hundredths of a mile", "18 thousandths", "3 eighths", "1 fifth",
    "36 halved", "9 doubled", "9 doubles", "6 tripled", "2 quadrillion", "9 twice",
    "5 mil", "5 bil", "5 mn", "5 grand", "18 less", "18 fewer", "18 sixteenths", "3 seventeenth", "7 twentieths",
    "18 zwanzig",
    "18 fünfundzwanzig", "3 viertel", "18 vingt", "18 veinte", "5 millones", "5 mille", "5 млн", "5 тысяч", "5 مليون",
    "5 tn", "5 trn", "5tn", "42nd", "18th", "1st", "3rd floor", "2nds", "3 doz", "3 Dutzend", "3 docenas",
    "\\boxed{4}\\boxed{2}", "(42)",
    "5万", "5 億円", "5千", "5만", "18 e2", "18 x2",
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), READ.items())
def test_reads_the_notations_people_use(text, value):
    assert parse_number(text) == Fraction(value)


@pytest.mark.parametrize("text", NOT_READ)
def test_reads_nothing_that_is_not_one_number(text):
    assert parse_number(text) is None


def test_is_exact():
    # As floats both are 0.30000000000000004 apart from each other's last digit, or equal; as fractions they differ.
    assert parse_number("0.1000000000000000000001") != parse_number("0.1")
    assert parse_number("9007199254740993") == 9007199254740993  # 2**53 + 1, no float


INTEGERS = st.integers(-(10**15), 10**15)


@settings(max_examples=200, deadline=None)
@given(INTEGERS, st.sampled_from(["", "$", "€"]), st.sampled_from(["", "%", " apples", "."]))
def test_round_trip_of_whole_numbers(number, currency, unit):
    sign, digits = "-" if number < 0 else "", abs(number)
    for written in (f"{digits}", f"{digits:,}", f"{digits}.00"):
        assert parse_number(f"{sign}{currency}{written}{unit}") == number


@settings(max_examples=200, deadline=None)
@given(INTEGERS, st.integers(1, 10**6))
def test_round_trip_of_fractions(over, under):
    value = Fraction(over, under)
    assert parse_number(f"{over}/{under}") == value
    assert parse_number(format_number(value)) == value
    whole, rest = divmod(abs(over), under)
    assert parse_number(f"{'-' if over < 0 else ''}{whole} {rest}/{under}") == value


@settings(max_examples=200, deadline=None)
@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12, places=6))
def test_round_trip_of_decimals(number):
    for written in (f"{number:f}", f"{number:f}".replace("-", "\u2212"), f"{number:,f}"):
        assert parse_number(written) == Fraction(number)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=80))
def test_never_raises(text):
    parse_number(text)
