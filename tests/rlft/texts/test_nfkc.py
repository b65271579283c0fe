import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from rlft.texts.characters import as_written, nfc, nfkc


@given(st.text(max_size=30))
def test_it_is_nfkc_and_nfc(text):
    assert nfkc(text) == unicodedata.normalize("NFKC", text)
    assert nfc(text) == unicodedata.normalize("NFC", text)


def test_more_marks_on_a_letter_than_any_language_has_are_left_out():
    assert nfkc("a" + "\u0316" * 40 + "b") == "a" + "\u0316" * 30 + "b"
    assert nfc("a" + "\u0316" * 40) == "a" + "\u0316" * 30
    assert nfkc("\uff21\u0301") == "\u00c1"  # a wide A with its accent


def test_a_raised_digit_and_a_fraction_stay_apart_from_the_number_before():
    assert [as_written(text) for text in ("5\u00b2", "x\u00b9\u2070", "2\u00bd")] == ["5^2", "x^10", "2 1\u20442"]
