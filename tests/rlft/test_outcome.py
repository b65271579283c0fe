"""What became of a rollout, as text and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.outcome import Failure, Fate, as_text


@given(st.text())
def test_every_stored_text_is_a_failure_that_says_the_same(text):
    assert str(Failure.read(text)) == text


@given(st.sampled_from(["setup", "engine", "compute_reward", "rollout"]), st.text())
def test_a_failure_is_read_from_its_text(where, why):
    assert Failure.read(str(Failure(where, why))) == Failure(where, why)


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("setup: KeyError: 'a: b', at x.py:3", "setup", "KeyError: 'a: b', at x.py:3"),
        ("engine died", "", "engine died"),
        ("no server: at all", "", "no server: at all"),
        ("http://x:1 is gone", "", "http://x:1 is gone"),
        ("engine:", "", "engine:"),
    ],
)
def test_the_place_is_one_word_before_the_first_colon(text, where, why):
    assert Failure.read(text) == Failure(where, why)


def test_a_reward_without_a_score_knows_what_failed_in_the_rollout():
    failed = Failure("engine", "rollout: gone")
    assert Failure("rollout", str(failed)).origin == failed
    assert failed.origin == failed


def test_no_failure_has_no_text():
    assert (as_text(None), as_text(Failure("state", "x"))) == (None, "state: x")


@pytest.mark.parametrize(
    ("text", "fate"),
    [
        ("trained", Fate("trained")),
        ("trained:kl_only", Fate("trained", "kl_only")),
        ("errored:compute_reward", Fate("errored", "compute_reward")),
    ],
)
def test_a_fate_is_read_from_its_text(text, fate):
    assert Fate.read(text) == fate
    assert str(fate) == text


def test_a_text_that_is_no_fate_is_refused():
    with pytest.raises(ValueError, match="'lost:there' is no fate of a rollout"):
        Fate.read("lost:there")
