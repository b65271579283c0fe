"""Patterns that people write, on texts that models write."""

import hashlib
import threading
import time

import pytest

from rlft.rewards.graders import patterns
from rlft.rewards.graders.limited import PatternTooSlow, check_pattern, find, find_all


@pytest.mark.parametrize(("pattern", "text"), [(r"(a|aa)+$", "a" * 5000 + "b"), (r"(x+x+)+y", "x" * 5000)])
def test_a_pattern_that_backtracks_for_ever_is_cut(pattern, text):
    started = time.monotonic()
    with pytest.raises(PatternTooSlow, match=r"took longer than 0\.2 s on 5,00"):
        find(pattern, text, seconds=0.2)
    assert time.monotonic() - started < 5  # `re` would take longer than the universe is old


@pytest.fixture
def busy():
    """Let three threads of this process take all the processor time that they get."""
    stop = threading.Event()

    def work():
        while not stop.is_set():
            hashlib.sha256(b"x" * (8 << 20)).digest()  # without the interpreter's lock

    threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    yield
    stop.set()
    for thread in threads:
        thread.join()


def slow_text():
    """Return a text on which a pattern takes 0.2 s or more, and how long; one more letter takes 1.6 times as long."""
    for length in range(24, 40):
        began = time.thread_time()
        patterns.search(patterns.Search("^(a|aa)+$", "a" * length + "!", "search", 1), 60)
        if (took := time.thread_time() - began) > 0.2:
            return "a" * length, took
    raise AssertionError("this machine is too fast")


@pytest.mark.slow
def test_what_other_threads_do_changes_no_result(busy):
    text, took = slow_text()
    # All threads together have taken four times as much, if each has its share.
    assert find("^(a|aa)+$", f"{text}?", seconds=2 * took) is None
    assert find("^(a|aa)+[?]$", f"{text}?", seconds=10, whole=True) == f"{text}?"


@pytest.mark.slow
def test_a_process_asks_about_equal_texts_once(tmp_path, monkeypatch):
    with pytest.raises(PatternTooSlow):
        find("^(a|aa)+$", "a" * 4321 + "!", seconds=0.3)
    monkeypatch.setattr(patterns, "__file__", str(tmp_path / "there is no such program"))
    with pytest.raises(PatternTooSlow):
        find("^(a|aa)+$", "a" * 4321 + "!", seconds=0.3)


def test_a_process_that_the_kernel_ended_was_too_slow_and_one_that_failed_has_failed(tmp_path, monkeypatch):
    program = tmp_path / "program.py"
    monkeypatch.setattr(patterns, "__file__", str(program))
    program.write_text("import os, signal; os.kill(os.getpid(), signal.SIGXCPU)")
    with pytest.raises(PatternTooSlow):
        find("^(a|aa)+$", "a" * 4001 + "!", seconds=0.3)
    program.write_text("raise ValueError('broken')")
    with pytest.raises(RuntimeError, match="broken"):
        find("^(a|aa)+$", "a" * 4002 + "!", seconds=0.3)


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
        ("(?i)queue:.*{{item.queue}}", "in which nothing is filled in: use a grader that takes templates"),
    ],
)
def test_what_is_no_pattern_is_refused(pattern, said):
    with pytest.raises(ValueError, match=said):
        check_pattern(pattern)
