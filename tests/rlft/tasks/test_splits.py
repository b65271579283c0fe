from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.config import SplitsConfig
from rlft.errors import TaskError
from rlft.tasks.duplicates import Claims, drop_duplicates
from rlft.tasks.rows import prompt_key
from rlft.tasks.splits import (
    DEALT_SPLITS,
    check_groups,
    check_splits,
    deal_groups,
    deal_tasks,
    order_by_hash,
    read_split_column,
)
from rlft.types import SPLITS, Split, Task

EVEN = SplitsConfig(train=1, validation=1, gate=1, test=1)


def task(id: str, split: Split = "train", *, prompt: str | None = None, group: str | None = None) -> Task:
    text = id if prompt is None else prompt
    messages = ({"role": "user", "content": text},)
    return Task(id, "e:E", messages, None, {}, split, group or prompt_key(messages))


def counts_of(tasks: list[Task]) -> dict[str, int]:
    return dict(Counter(task.split for task in tasks))


def test_dealing_by_value():
    # for n in 0 1 2 3; do printf "0|g$n" | sha256sum; done: g0 0b87a2…, g2 10e8f4…, g3 37b5fe…, g1 ed1f07…
    # Each of four groups of one row is a quarter; the quarters are test, gate, validation, train.
    assert deal_groups(["g0", "g1", "g2", "g3"], EVEN, seed=0) == {
        "g0": "test",
        "g2": "gate",
        "g3": "validation",
        "g1": "train",
    }


def test_a_group_goes_where_its_middle_row_falls():
    # In the order above, groups of 3, 1, 1 and 3 rows have their middles at 1.5, 3.5, 4.5 and 6.5 of 8 rows; the
    # quarters end at 2, 4, 6 and 8. (By their ends, 3, 4, 5 and 8, none would go to test.)
    rows = ["g0"] * 3 + ["g1"] * 3 + ["g2", "g3"]
    assert deal_groups(rows, EVEN, seed=0) == {"g0": "test", "g2": "gate", "g3": "validation", "g1": "train"}


groups = st.lists(st.sampled_from([f"g{number}" for number in range(40)]), min_size=1, max_size=120)
shares = st.builds(SplitsConfig, **{name: st.integers(1, 50) for name in DEALT_SPLITS})


@given(groups, shares, st.integers(0, 5))
def test_groups_never_straddle_and_every_row_lands_once(names: list[str], splits: SplitsConfig, seed: int):
    rows = [task(f"t{number}", group=name) for number, name in enumerate(names)]
    dealt = deal_tasks(rows, splits, seed=seed)
    assert [row.id for row in dealt] == [row.id for row in rows]
    assert all(len({row.split for row in dealt if row.group == name}) == 1 for name in set(names))
    check_groups(dealt, "here")
    assert deal_tasks(rows[::-1], splits, seed=seed) == dealt[::-1]  # the order of rows does not matter


@given(groups, shares)
def test_split_sizes_are_off_by_less_than_a_group_at_either_end(names: list[str], splits: SplitsConfig):
    sizes = Counter(names)
    got = Counter(deal_groups(names, splits, seed=0)[name] for name in names)
    total = sum(getattr(splits, name) for name in DEALT_SPLITS)
    for name in DEALT_SPLITS:
        share = getattr(splits, name) / total * len(names)
        assert abs(got[name] - share) <= max(sizes.values()) + 1e-9


def test_seeds_deal_differently_and_added_rows_move_few():
    names = [f"g{number}" for number in range(1000)]
    splits = SplitsConfig(train=80, validation=5, gate=5, test=10)
    before, other = deal_groups(names, splits, seed=0), deal_groups(names, splits, seed=1)
    after = deal_groups(names + [f"new{number}" for number in range(50)], splits, seed=0)
    # By chance 0.8² + 0.05² + 0.05² + 0.1² = 65.5 % agree between two seeds.
    assert 600 < sum(before[name] == other[name] for name in names) < 710
    # 50 new ones among 1000 shift each of three ends by a few places only (their expected shift is 0).
    assert sum(before[name] != after[name] for name in names) < 25


def test_the_split_column_decides_only_with_our_names_everywhere():
    assert read_split_column([{"split": "train"}, {"split": "off_distribution"}], "x").decides
    assert read_split_column([{"a": 1}], "x").note == "dealt by group"
    mixed = read_split_column([{"split": "train"}, {"split": "val"}, {"a": 1}, {"split": ["test"]}], "x")
    assert not mixed.decides
    assert mixed.note.endswith("as it also holds 'val', None, ['test']")


def test_a_group_in_two_splits_is_an_error():
    with pytest.raises(TaskError, match="group 'g' stands in train and in test"):
        check_groups([task("a", "train", group="g"), task("b", "test", group="g")], "x.jsonl")


def test_empty_splits_are_an_error_that_names_them():
    tasks = [task("a", "train"), task("b", "test")]
    with pytest.raises(TaskError) as raised:
        check_splits(tasks, "x.jsonl", by_column=False)
    assert raised.value.what == "no tasks for validation, gate (there are: train 1, test 1)"
    assert "tasks.splits" in raised.value.fix
    with pytest.raises(TaskError, match="column `split`"):
        check_splits(tasks, "x.jsonl", by_column=True)


def test_duplicates_stay_in_test_before_gate_before_validation_before_train():
    tasks = [
        task("train-1", "train", prompt="In  TEST"),
        task("train-2", "train", prompt="own"),
        task("train-3", "train", prompt="in validation"),
        task("validation-1", "validation", prompt="in gate"),
        task("validation-2", "validation", prompt="in validation"),
        task("gate-1", "gate", prompt="in gate"),
        task("gate-2", "gate", prompt="in test"),
        task("test-1", "test", prompt="in test"),
        task("off-1", "off_distribution", prompt="own"),
        task("off-2", "off_distribution", prompt="far"),
    ]
    claims = Claims()
    kept = drop_duplicates(tasks, claims)
    assert [row.id for row in kept] == ["train-2", "validation-2", "gate-1", "test-1", "off-2"]
    assert claims.take_dropped() == {
        "gate: also in test": 1,
        "validation: also in gate": 1,
        "train: also in test": 1,
        "train: also in validation": 1,
        "off_distribution: also in train": 1,
    }
    assert claims.take_dropped() == {}


def test_within_a_split_the_same_id_is_a_duplicate_and_the_same_prompt_is_not():
    # Two answers to one prompt are two tasks; both stay, in one split.
    claims = Claims()
    kept = drop_duplicates([task("a", prompt="p"), task("b", prompt="p"), task("a", prompt="p")], claims)
    assert [row.id for row in kept] == ["a", "b"]
    assert claims.dropped == {"train: repeated": 1}
    assert not claims.claim(task("c", prompt="P"), distinct_prompts=True)


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(SPLITS), st.integers(0, 2)), max_size=40))
def test_after_dropping_no_prompt_stands_in_two_splits(rows: list[tuple[str, Split, int]]):
    tasks = [task(f"{prompt}{answer}", split, prompt=prompt) for prompt, split, answer in rows]
    claims = Claims()
    kept = drop_duplicates(tasks, claims)
    assert len(kept) + sum(claims.dropped.values()) == len(tasks)
    assert len({row.id for row in kept}) == len(kept)
    assert {row.prompt[0]["content"] for row in kept} == {prompt for prompt, _, _ in rows}
    check_groups(kept, "here")


def test_sampling_order_depends_on_seed_and_id_alone():
    tasks = [task(name) for name in "abcdefghij"]
    first = order_by_hash(tasks, seed=0)
    assert order_by_hash(reversed(tasks), seed=0) == first
    assert order_by_hash(tasks, seed=1) != first
