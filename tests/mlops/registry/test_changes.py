"""What notes of changes and the alias say took place; notes that rlft has not written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from mlops.registry.changes import Change, Person, find_moves, read_changes, waits

START = datetime(2026, 11, 20, tzinfo=UTC)


def change(hour, before, to, kind="promotion"):
    return Change(kind=kind, before=before, to=to, who=Person(name="ann"), at=START + timedelta(hours=hour))


FIRST, SECOND, BACK = change(0, None, "1"), change(1, "1", "2"), change(2, "2", "1", "rollback")


@pytest.mark.parametrize(
    ("changes", "champion", "expected"),
    [
        ([], None, []),
        ([FIRST], "1", [("1", True)]),
        ([FIRST], None, []),  # killed before the alias was written
        ([FIRST, SECOND, BACK], "1", [("1", True), ("2", True), ("1", True)]),
        ([FIRST, SECOND, BACK], "2", [("1", True), ("2", True)]),  # the last was killed before the alias
        ([FIRST, SECOND, change(2, "1", "3")], "3", [("1", True), ("3", True)]),  # 3 saw what 2 began from
        ([FIRST, SECOND, change(2, "1", "2")], "2", [("1", True), ("2", True)]),  # given again after a kill
        ([], "2", [("2", False)]),  # by another client, as are the next ones
        ([FIRST], "5", [("1", True), ("5", False)]),
        ([FIRST, change(1, "2", "3")], "3", [("1", True), ("2", False), ("3", True)]),
        ([FIRST, SECOND], "3", [("1", True), ("2", True), ("3", False)]),
        ([change(0, "4", "5")], "5", [("4", False), ("5", True)]),
    ],
)
def test_a_change_was_made_unless_the_alias_was_seen_afterwards_where_it_began(changes, champion, expected):
    moves = find_moves(changes, champion)
    assert [(move.to, move.change is not None) for move in moves] == expected
    assert all(one.to == other.before for one, other in pairwise(moves))


def test_notes_are_read_in_the_order_of_their_times_and_damaged_ones_are_left_out(caplog):
    good = {f"rlft.change.{key}": each.model_dump_json() for key, each in (("a", BACK), ("b", FIRST), ("c", SECOND))}
    assert read_changes(good) == [FIRST, SECOND, BACK]
    kept = FIRST.model_dump_json()
    bad = ["{}", "no json", kept.replace('"to":"1"', '"to":"latest"'), kept.replace("Z", "")]  # the last has no zone
    assert read_changes({f"rlft.change.{place}": text for place, text in enumerate(bad)} | {"team": "x"}) == []
    assert caplog.text.count("is damaged") == len(bad)


def test_a_version_that_another_client_made_champion_waits_on_until_it_is_approved():
    pending = {"rlft.approval": "pending"}
    assert waits(pending, "2", find_moves([FIRST], "2"))
    assert not waits(
        pending, "2", find_moves([FIRST, change(1, "1", "2", "approval")], "2")
    )  # cut short before its tag
    assert not waits({"rlft.approval": "approved"}, "2", find_moves([FIRST], "2"))
    assert not waits({}, "2", [])
