"""benchmarks.faults: the verdicts, and one fault of each of two kinds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.faults import __main__ as faults
from benchmarks.faults.artifacts import cut, edit, empty, flip
from benchmarks.faults.scene import MOST_LINES, Scene, Seen, advised, is_raw
from tests.e2e.conftest import Home, Result

HOME = Home(Path("/nowhere"))
SAID = "error: report.json: this file has 3 bytes\n  -> `rlft resume 'tiny run'` makes it again"


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (SAID, ["resume", "tiny run"]),
        ("make room on the disk, then `rlft resume tiny-1` goes on", ["resume", "tiny-1"]),
        ("`rlft resume tiny-1`\ngoes on; or\n`rlft doctor\n--verify`", ["doctor", "--verify"]),  # lines are wrapped
        ("there is nothing to be done", None),
    ],
)
def test_the_last_command_that_is_named_is_followed(output, words):
    assert advised(output) == words


@pytest.mark.parametrize(
    ("output", "raw"),
    [
        (SAID, False),
        ("Traceback (most recent call last):\n  File", True),
        ("unexpected error MlflowException", True),
        ("line\n" * MOST_LINES, False),
        ("line\n" * (MOST_LINES + 1), True),
    ],
)
def test_what_only_a_developer_reads_is_raw(output, raw):
    assert is_raw(Result(1, output, None)) is raw


class Judged(Scene):
    """A scene in which a result is equal to the undisturbed run's where its summary says so."""

    def equal(self, home: Home, result: Result) -> bool:
        return bool(result.summary and result.summary["equal"])


GOOD, OTHER = Result(0, "fine", {"equal": True}), Result(0, "fine", {"equal": False})
STOPPED, RAW = Result(1, SAID, None), Result(1, "Traceback (most recent call last):", None)


@pytest.mark.parametrize(
    ("results", "verdict"),
    [
        ([GOOD], ("survived", True)),
        ([OTHER], ("silent", False)),  # it went to its end, with another policy
        ([STOPPED, GOOD], ("stopped", True)),
        ([STOPPED], ("stopped", False)),
        ([STOPPED, OTHER], ("stopped", False)),
        ([RAW], ("raw", False)),
        ([STOPPED, RAW], ("raw", False)),
    ],
)
def test_a_verdict(results, verdict, tmp_path):
    assert Judged(tmp_path).judge(Seen(HOME, results)) == verdict


def test_what_had_to_be_named_and_was_not_is_silent(tmp_path):
    seen = Seen(HOME, [Result(0, "all is well", None)], must_name="rollouts.parquet", policies=False)
    assert Judged(tmp_path).judge(seen) == ("silent", False)
    named = Seen(HOME, [Result(1, "rollouts.parquet has changed", None)], must_name="rollouts.parquet", policies=False)
    assert Judged(tmp_path).judge(named) == ("stopped", False)


def test_the_harms_change_a_file(tmp_path):
    file = tmp_path / "report.json"
    for harm in (flip, cut, empty, edit):
        file.write_text(json.dumps({"round": 1, "text": "a" * 200}))
        before = file.read_bytes()
        harm(file)
        assert file.read_bytes() != before
    assert json.loads(file.read_text())["round"] == 7  # an edit leaves what can be read


def test_counts_are_by_kind_and_in_all():
    lines = [
        faults.Line("a", "1", "survived", True, "", 1.0),
        faults.Line("a", "2", "stopped", True, "", 1.0),
        faults.Line("b", "3", "stopped", False, "", 1.0),
        faults.Line("b", "4", "silent", False, "", 1.0),
    ]
    found = faults.summary(lines)
    assert {key: found[key] for key in ("tried", "survived", "stopped", "raw", "silent", "recovered")} == {
        "tried": 4, "survived": 1, "stopped": 2, "raw": 0, "silent": 1, "recovered": 1,
    }  # fmt: skip
    assert found["by_kind"]["b"]["silent"] == 1
    assert len({(fault.kind, fault.name) for room in faults.ROOMS for fault in room.faults()}) == sum(
        len(room.faults()) for room in faults.ROOMS
    )
