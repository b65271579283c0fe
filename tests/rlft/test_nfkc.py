import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from rlft.nfkc import nfc, nfkc


@given(st.text(max_size=30))
def test_it_is_nfkc_and_nfc(text):
    assert nfkc(text) == unicodedata.normalize("NFKC", text)
    assert nfc(text) == unicodedata.normalize("NFC", text)


def test_more_marks_on_a_letter_than_any_language_has_are_left_out():
    assert nfkc("a" + "\u0316" * 40 + "b") == "a" + "\u0316" * 30 + "b"
    assert nfc("a" + "\u0316" * 40) == "a" + "\u0316" * 30
    assert nfkc("\uff21\u0301") == "\u00c1"  # a wide A with its accent
