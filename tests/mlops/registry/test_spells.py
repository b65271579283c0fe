"""Who was champion, by notes that a killed writer has left, or that several have made at once."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlops.registry.changes import Change, in_order, next_change, read_changes
from mlops.registry.people import Person
from mlops.registry.spells import find_moves, find_spells

START = datetime(2026, 11, 1, tzinfo=UTC)
LATER = START + timedelta(days=9)
SOMEBODY = Person(name="ann")


def change(seq, before, to, *, kind="promotion", done=True, unfinished=()):
    at = START + timedelta(hours=seq)
    ended = at + timedelta(seconds=1) if done else None
    own = f"{seq:06d}.{int(to):08x}"
    return Change(
        id=own, seq=seq, kind=kind, before=before, to=to, who=SOMEBODY, at=at, unfinished=unfinished, done=ended
    )


def told(changes, alias):
    return [(move.before, move.to, move.how) for move in find_moves(in_order(changes), alias, LATER)]


FIRST = change(1, None, "1")


@pytest.mark.parametrize(
    ("done", "alias", "expected"),
    [
        (False, "1", []),  # killed before the alias
        (False, "2", [("1", "2", "promotion")]),  # killed behind it
        (True, "2", [("1", "2", "promotion")]),
    ],
)
def test_each_prefix_of_a_change_is_told_as_what_has_happened(done, alias, expected):
    assert told([FIRST, change(2, "1", "2", done=done)], alias) == [(None, "1", "promotion"), *expected]


@pytest.mark.parametrize("saw", ["1", "2"])
def test_whether_a_change_that_was_cut_short_took_place_is_said_by_the_next_one(saw):
    cut = change(2, "1", "2", done=False)
    after = change(3, saw, "3", unfinished=(cut.id,))
    took_place = [("1", "2", "promotion"), ("2", "3", "promotion")] if saw == "2" else [("1", "3", "promotion")]
    assert told([FIRST, cut, after], "3") == [(None, "1", "promotion"), *took_place]


@pytest.mark.parametrize(
    ("alias", "expected"),
    [("2", [("2", "2", "")]), ("1", [("2", "1", "outside")]), (None, [("2", None, "outside")])],
)
def test_an_alias_that_another_client_has_moved_is_told_with_the_time_between(alias, expected):
    moves = find_moves([FIRST, change(2, "1", "2")], alias, LATER)
    last = [(move.before, move.to, move.how) for move in moves[2:]]
    assert last == [each for each in expected if each[2]]
    if last:
        assert (moves[2].earliest, moves[2].latest) == (START + timedelta(hours=2, seconds=1), LATER)


def test_a_move_outside_between_two_changes_is_seen_by_the_second():
    # 1 by rlft, 2 by hand, and a promotion that found 2
    assert told([FIRST, change(2, "2", "3")], "3") == [
        (None, "1", "promotion"),
        ("1", "2", "outside"),
        ("2", "3", "promotion"),
    ]


def test_a_champion_from_before_there_were_notes():
    [first, _] = find_moves([change(1, "4", "5")], "5", LATER)
    assert (first.before, first.to, first.how, first.earliest) == (None, "4", "outside", None)
    assert first.latest == START + timedelta(hours=1)


@pytest.mark.parametrize(("alias", "order"), [("3", ["2", "3"]), ("2", ["3", "2"])])
def test_changes_at_once_are_no_moves_outside(alias, order):
    """Two that saw the same champion: the one that the alias names now was the later one."""
    moves = told([FIRST, change(2, "1", "2"), change(2, "1", "3")], alias)
    assert moves == [(None, "1", "promotion"), ("1", order[0], "promotion"), (order[0], order[1], "promotion")]


def test_one_that_saw_another_begin_and_not_end_was_made_at_once_with_it():
    slow = change(2, "1", "2")
    fast = change(3, "1", "3", unfinished=(slow.id,))
    assert told([FIRST, slow, fast], "3")[1:] == [("1", "2", "promotion"), ("2", "3", "promotion")]


def test_spells_end_where_the_next_begins():
    spells = find_spells(find_moves([FIRST, change(2, "1", "2"), change(3, "2", "1", kind="rollback")], "1", LATER))
    assert [spell.version for spell in spells] == ["1", "2", "1"]
    assert [spell.ended and spell.ended.to for spell in spells] == ["2", "1", None]


@given(
    st.lists(
        st.tuples(st.sampled_from(["promotion", "rollback", "hand"]), st.integers(1, 9), st.integers(0, 3)), max_size=12
    )
)
def test_whatever_is_killed_where_the_last_spell_is_what_the_alias_names_and_nothing_is_told_that_was_not(steps):
    """Writers one after the other, each killed after so many of its three writes, and moves by hand between them."""
    changes, alias, truth = [], None, []
    for kind, number, writes in steps:
        to = str(number)
        if to == alias:
            continue
        if kind == "hand":
            alias = to
            truth.append(alias)
            continue
        begun = next_change(changes, kind, alias, to, SOMEBODY)
        if writes > 0:
            changes = in_order([*changes, begun.model_copy(update={"done": LATER if writes == 3 else None})])
        if writes > 1:
            alias = to
            truth.append(alias)
    moves = find_moves(changes, alias, LATER)
    assert (moves[-1].to if moves else None) == alias
    assert all(one.to == other.before for one, other in itertools.pairwise(moves))
    assert all(move.before != move.to for move in moves)
    # What is told is a part of what happened, in that order; what is left out are moves by hand that nobody saw.
    left = iter(truth)
    assert all(move.to in left for move in moves)


def test_damaged_notes_are_left_out_and_said(caplog):
    good = next_change([], "promotion", None, "1", SOMEBODY)
    tags = {
        f"rlft.change.{good.id}": good.model_dump_json(),
        "rlft.change.x": "{}",
        "rlft.change.000002.0123abcd": "no json",
        "rlft.change.000003.0123abcd": good.model_dump_json().replace('"to":"1"', '"to":"latest"'),
        "rlft.change.000004.0123abcd": good.model_dump_json().replace('"to":"1"', '"to":"' + "9" * 5000 + '"'),
        "rlft.look.a.b": "1/20/0.05",
    }
    assert read_changes(tags) == [good]
    assert len(caplog.records) == 4
    assert read_changes({**tags, f"rlft.changed.{good.id}": "yesterday"}) == []  # its end is no time
    [ended] = read_changes({**tags, f"rlft.changed.{good.id}": LATER.isoformat()})
    assert ended.done == LATER
