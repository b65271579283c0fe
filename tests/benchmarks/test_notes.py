"""The tasks about written rules: none twice, and nothing of the unseen ones among the others."""

from benchmarks.notes import AVOID, ENDINGS, TOPICS, UNSEEN, USE, make_rows


def test_no_row_stands_twice_and_the_unseen_ones_are_others():
    rows = make_rows(TOPICS, USE, AVOID, ENDINGS, count=500, seed=0)
    assert len({tuple(row.values()) for row in rows}) == 500
    assert rows == make_rows(TOPICS, USE, AVOID, ENDINGS, count=500, seed=0)
    other = make_rows(**UNSEEN, count=100, seed=1)
    for field in ("topic", "use", "avoid", "sign"):
        assert not {row[field] for row in rows} & {row[field] for row in other}
