"""Amounts of money, in the notations of invoices."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlft.rewards.graders.quantities import CURRENCIES, amounts, read_amount

READ = {
    "EUR": {
        "EUR 1.895,62": "1895.62", "1.895,62 €": "1895.62", "€1,895.62": "1895.62", "1895,62": "1895.62",
        "1895.62 Euro": "1895.62", "1 895,62 euros": "1895.62", "1\u202f895,62 €": "1895.62", "1'895.62": "1895.62",
        "1.234.567": "1234567", "1,234,567": "1234567", "1 234": "1234", "0.125 €": "0.125", "5,00": "5", "5": "5",
        "5,-": "5", "5,\u2013 €": "5", "-5 €": "-5", "€-5": "-5", "-€ 5": "-5", "\u22125,50 €": "-5.5", "+5": "5",
        "€ 5 EUR": "5", "eur5": "5", "**5,00 €**": "5", "5 EUR.": "5", ".50": "0.5", ",50 €": "0.5",
    },
    "USD": {
        "$1,234.50": "1234.5", "USD 5": "5", "5 US dollars": "5", "5 U.S. dollars": "5", "US$5": "5", "$5 USD": "5",
        "$ 5": "5", "5 Dollars": "5", "\\$5": "5",
    },
    "CHF": {"CHF 1'234.50": "1234.5", "1\u2019234.— Fr.": "1234", "Fr. 5.--": "5"},
    "INR": {"₹12,34,567.00": "1234567", "Rs. 12,34,567": "1234567"},
    "SEK": {"5,50 kr": "5.5"}, "DKK": {"kr. 5,50": "5.5"}, "AUD": {"$5.50": "5.5", "A$5.50": "5.5"},
    "GBP": {"£5.50": "5.5", "5 pounds sterling": "5"}, "JPY": {"¥5": "5"}, "CNY": {"¥5": "5"},
    "PLN": {"5,50 zł": "5.5", "\uff15\uff0c\uff15\uff10 zł": "5.5"},
}  # fmt: skip
NONE = [
    "", "EUR", "€", "USD 5", "$5", "5 £", "C$5", "5 kg", "50 ct", "50 cents", "5k €", "€5M", "5 Mio. €",
    "5 million EUR", "5 € and 6 €", "5 EUR 6", "3-4 €", "5-", "--5", "-€-5", "+-5", "1.2.3", "1,234,56", "1.23,456.7",
    "01.234,50", "1'23", "1.234'567,00", "1,895.62,00", "5,50,-", "5 €/h", "(5)", "about 5 €", "1,",
    "€ EUR 5", "9" * 65,
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "currency", "value"), [(text, code, value) for code, read in READ.items() for text, value in read.items()]
)
def test_an_amount_as_invoices_have_it(text, currency, value):
    assert read_amount(text, currency, None) == Fraction(value)


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_amount_in_the_currency(text):
    assert amounts(text, "EUR") == {}


@pytest.mark.parametrize(
    ("text", "point", "comma"),
    [
        ("1.234", "1.234", "1234"),
        ("1,234 €", "1234", "1.234"),
        ("EUR 12.345", "12.345", "12345"),
        ("-1.234", "-1.234", "-1234"),
    ],
)
def test_an_amount_that_may_be_either_is_none_until_it_is_said_which(text, point, comma):
    assert read_amount(text, "EUR", None) is None
    assert read_amount(text, "EUR", "point") == Fraction(point)
    assert read_amount(text, "EUR", "comma") == Fraction(comma)


@pytest.mark.parametrize(("text", "decimal"), [("5,50", "point"), ("5.50", "comma"), ("1.895,62", "point")])
def test_the_notation_that_is_named_is_the_only_one(text, decimal):
    assert read_amount(text, "EUR", None) is not None
    assert read_amount(text, "EUR", decimal) is None


def test_no_sign_or_name_is_of_a_currency_that_there_is_not():
    from rlft.rewards.graders.quantities import _CURRENCIES_OF

    assert set().union(*_CURRENCIES_OF.values()) <= CURRENCIES
    assert len(CURRENCIES) == 155  # 154 that pay for goods (ISO 4217 of 2026, without funds and metals), and BGN


@settings(max_examples=200, deadline=None)
@given(st.integers(-(10**14), 10**14), st.sampled_from(["{} EUR", "€{}", "{}"]))
def test_round_trip_of_amounts_with_cents(cents, written):
    sign, (whole, rest) = "-" if cents < 0 else "", divmod(abs(cents), 100)
    english = f"{whole:,}.{rest:02}"
    german = english.translate(str.maketrans(",.", ".,"))
    for text in (english, german, f"{whole}.{rest:02}", f"{whole},{rest:02}"):
        assert read_amount(sign + written.format(text), "EUR", None) == Fraction(cents, 100)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.one_of(st.sampled_from("0123456789.,' -€$EUR"), st.characters()), max_size=80))
def test_no_text_raises(text):
    assert set(amounts(text, "EUR")) <= {"point", "comma"}
