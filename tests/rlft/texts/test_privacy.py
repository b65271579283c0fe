"""What of a text is masked, what stays, and in which time."""

import re
import socket
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.texts.privacy import PERSONAL, Masker

# Numbers that nobody has: those of examples (example.com, 555-01xx, the test card of Visa, the IBAN of Wikipedia).
FOUND = {
    "EMAIL_ADDRESS": "jane.doe@example.com",
    "PHONE_NUMBER": "(212) 555-0175",
    "CREDIT_CARD": "4111 1111 1111 1111",
    "IBAN_CODE": "DE89370400440532013000",
    "IP_ADDRESS": "192.168.0.1",
    "MAC_ADDRESS": "00:1b:44:11:3a:b7",
    "US_SSN": "536-90-4399",
    "CRYPTO": "16Yeky6GMjeNkAiNcBY7ZhrLoMSgg1BoyZ",
}


@pytest.fixture(scope="module")
def masker():
    return Masker()


def test_every_kind_has_an_example():
    assert set(FOUND) == set(PERSONAL)


@pytest.mark.parametrize("kind", PERSONAL)
def test_each_kind_is_found_and_counted_and_the_rest_of_the_text_stays(kind):
    masker = Masker([kind])
    assert masker.text(f"Is it {FOUND[kind]}, or not?") == f"Is it <{kind}>, or not?"
    assert masker.counts == {kind: 1}


def test_only_the_kinds_that_are_asked_for_are_masked():
    masker = Masker(["EMAIL_ADDRESS"])
    text = "jane@example.com or (212) 555-0175"
    assert masker.text(text) == "<EMAIL_ADDRESS> or (212) 555-0175"
    assert Masker([]).text(text) == text


def test_several_in_one_text_are_all_masked(masker):
    said = masker.text(" and ".join(FOUND.values()))
    assert said == " and ".join(f"<{kind}>" for kind in FOUND)


@pytest.mark.parametrize(
    "text",
    [
        "37-4+8=",
        "12345678+23456789=",
        "What is 4111 1111 1111 1112 minus 1?",  # its last digit is none of a card (Luhn)
        "See section 3.4.5 at 12:30",
        "a@b",  # no domain
        "mail me at x@y.zz",  # nor is this: there is no top-level domain of this name
        "Jane Doe of 5 Elm Street",  # names show by no form: docs/guide/use.md says so
    ],
)
def test_what_is_no_personal_data_by_its_form_stays(masker, text):
    assert masker.text(text) == text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("_john@example.com_ and __john@example.com__.", " and ".join(["_<EMAIL_ADDRESS>_", "__<EMAIL_ADDRESS>__."])),
        ("john@example.com_x", "<EMAIL_ADDRESS>_x"),
        ("jane_a.doe_@example.com", "<EMAIL_ADDRESS>"),
        ("to john%40example.com&x", "to <EMAIL_ADDRESS>&x"),
        ("\U0001f642 john\uff20example.com \uff1f", "\U0001f642 <EMAIL_ADDRESS> \uff1f"),  # a wide @
        ("so\u00ad: jo\u200bhn\u200b@exam\u2060ple.com\u200b!", "so\u00ad: <EMAIL_ADDRESS>\u200b!"),
        ("root@corp.local", "<EMAIL_ADDRESS>"),
        ("is de89370400440532013000 or de89 3704 0044 0532 0130 00 mine", "is <IBAN_CODE> or <IBAN_CODE> mine"),
        ("_4111111111111111_", "_<CREDIT_CARD>_"),
        ("4111.1111.1111.1111", "<CREDIT_CARD>"),
        ("my SSN is 536904399, ssn: 536904399", "my SSN is <US_SSN>, ssn: <US_SSN>"),
    ],
)
def test_other_ways_to_write_them_are_found(masker, text, masked):
    assert masker.text(text) == masked


@pytest.mark.slow
@given(st.lists(st.sampled_from([*FOUND.values(), "%40", "\u200b", "_", " ", "\ufdfa", "\uff20", "e\u0301", "x"])))
def test_what_is_not_masked_stays_sign_by_sign(parts):
    text = "".join(parts)
    # What is between the masks stands in the text, in this order.
    place = 0
    for kept in re.split("|".join(f"<{kind}>" for kind in PERSONAL), Masker().text(text)):
        found = text.find(kept, place)
        assert found >= 0, kept
        place = found + len(kept)


def test_where_two_kinds_overlap_the_surer_one_counts(masker):
    # Presidio finds 536-90-4399 as a telephone number (0.4) and as a social security number (0.5).
    assert masker.text("536-90-4399") == "<US_SSN>"


def test_nested_values_are_masked_and_keys_numbers_and_order_stay(masker):
    value = {"a@example.com": ["b@example.com", 5, None, True, {"c": "d@example.com"}], "n": 2125550175}
    assert masker.value(value) == {
        "a@example.com": ["<EMAIL_ADDRESS>", 5, None, True, {"c": "<EMAIL_ADDRESS>"}],
        "n": 2125550175,
    }


def test_nothing_is_asked_of_the_internet(monkeypatch):
    def refuse(*arguments, **named):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert Masker(["EMAIL_ADDRESS"]).text("a.b@sub.example.co.uk") == "<EMAIL_ADDRESS>"


def test_an_address_behind_a_long_word_is_found(masker):
    # The window before the @ has 64 characters: what is longer is no address, and of it the end is masked.
    assert masker.text("x" * 100 + "@example.com") == "x" * 36 + "<EMAIL_ADDRESS>"


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", ["a.", "a@", "a@b.com ", "@a.", "1-", "1:", "_", "a_", "%40", "DE89 3704 ", "+49 30 ", "("]
)
def test_the_time_grows_with_the_length(masker, unit):
    # Presidio's own form of an address takes 16 s for "a." x 6,250 + "@", and 16 times as much for four times as much.
    def seconds(count):
        text, began = unit * (count // len(unit)) + "@", time.process_time()
        masker.text(text)
        return time.process_time() - began

    small, large = seconds(2_000), seconds(8_000)
    assert large < max(10 * small, 0.1)
