"""What became of a rollout, as text and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.outcome import Failure, Fate, as_text


@given(st.text())
def test_every_stored_text_is_a_failure_that_says_the_same(text):
    assert str(Failure.read(text)) == text


@given(st.sampled_from(["setup", "engine", "compute_reward", "rollout"]), st.text(), st.text())
def test_a_failure_is_read_from_its_text(where, why, fix):
    assert Failure.read(str(Failure(where, why, fix))) == Failure(where, why, fix)


def test_a_failure_tells_its_way_out_after_what_is_wrong():
    failure = Failure("compute_reward", "part 'a' is 2 of 1", "return 1", raised="ValueError", place="x.py:3")
    assert str(failure) == "compute_reward: part 'a' is 2 of 1; what to do: return 1"


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
    assert Failure("rollout", "setup: KeyError: 'a'", raised="KeyError", place="x.py:3").kind == (
        "setup", "KeyError", "x.py:3",
    )  # fmt: skip


def test_the_kind_of_a_failure_follows_from_its_error_and_not_from_the_words_of_the_text():
    said = Failure("setup", "KeyError: 'a: b, at y.py:9', at x.py:3", raised="KeyError", place="x.py:3")
    assert said.kind == ("setup", "KeyError", "x.py:3")
    assert Failure("setup", "KeyError, at x.py:3", raised="KeyError", place="x.py:3").kind == said.kind
    assert Failure("setup", said.why, raised="KeyError", place="x.py:4").kind != said.kind


def test_the_kind_of_a_failure_with_a_text_alone_is_its_beginning():
    one, two = (Failure.read(f"rollout: setup: KeyError: {key!r}, at x.py:{key}; task.info has: a") for key in (3, 4))
    assert one.kind == two.kind == ("setup", "KeyError", "")
    assert Failure("compute_reward", "no part applies (parts: {'a': None})").kind == (
        "compute_reward", "no part applies (parts", "",
    )  # fmt: skip


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
