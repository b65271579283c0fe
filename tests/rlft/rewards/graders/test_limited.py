"""Patterns that people write, on texts that models write."""

import time

import pytest

from rlft.rewards.graders.plain import PatternTooSlow, check_pattern, find, find_all


@pytest.mark.parametrize(("pattern", "text"), [(r"(a|aa)+$", "a" * 5000 + "b"), (r"(x+x+)+y", "x" * 5000)])
def test_a_pattern_that_backtracks_for_ever_is_cut(pattern, text):
    started = time.monotonic()
    with pytest.raises(PatternTooSlow, match=r"took longer than 0\.2 s on 5,00"):
        find(pattern, text, seconds=0.2)
    assert time.monotonic() - started < 5  # `re` would take longer than the universe is old


def test_an_empty_match_is_a_match():
    assert find("a*", "b", seconds=1) == ""
    assert find_all("(a)?b", "b ab", seconds=1, most=3) == ["", "a"]


def test_the_first_group_or_the_whole_match_is_found():
    assert find_all(r"Answer: (\w+)", "Answer: a. Answer: b. Answer: c.", seconds=1, most=2) == ["a", "b"]
    assert find_all(r"\d+", "1 and 22", seconds=1, most=9) == ["1", "22"]
    assert find(r"\d+", "a 1", seconds=1)
    assert find(r"\d+", "a 1", seconds=1, whole=True) is None


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(a", "no regular expression"),
        ("a" * 2001, "at most 2000"),
        ("(?i)queue:.*{{item.queue}}", "in which nothing is filled in"),
    ],
)
def test_what_is_no_pattern_is_refused(pattern, said):
    with pytest.raises(ValueError, match=said):
        check_pattern(pattern)
