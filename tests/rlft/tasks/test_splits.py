import math
from collections import Counter
from dataclasses import replace
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.config import SplitsConfig
from rlft.errors import TaskError
from rlft.evaluation.gates import prompt_key
from rlft.tasks.rows import split_column_decides
from rlft.tasks.splits import (
    DEALT_SPLITS,
    Claims,
    check_groups,
    check_splits,
    deal_group,
    deal_tasks,
    drop_duplicates,
    order_by_hash,
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
    # The time of each split is -ln(u) / count, where u is the sha256 of "seed|split|group" as a fraction of 2^256.
    splits = SplitsConfig(train=80, validation=5, gate=5, test=10)
    for group in (f"g{number}" for number in range(50)):
        times = {}
        for name in DEALT_SPLITS:
            fraction = int(sha256(f"3|{name}|{group}".encode()).hexdigest(), 16) / 2**256
            times[name] = -math.log(fraction) / getattr(splits, name)
        assert deal_group(group, splits, seed=3) == min(times, key=times.__getitem__)


def test_the_same_groups_are_dealt_so_for_ever():
    # A change here moves the tasks of everybody's gate: printed once, and kept.
    dealt = " ".join(deal_group(f"g{number}", EVEN, seed=0) for number in range(8))
    assert dealt == "validation test train gate gate test train gate"


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


def test_the_sizes_of_splits_follow_the_counts():
    # 4000 groups at 80, 5, 5 and 10 %: four standard deviations sqrt(n p (1 - p)) are 101, 55, 55 and 76 groups.
    splits = SplitsConfig(train=800, validation=50, gate=50, test=100)
    got = Counter(deal_group(f"g{number}", splits, seed=0) for number in range(4000))
    for name, share, most in (("train", 0.8, 101), ("validation", 0.05, 55), ("gate", 0.05, 55), ("test", 0.1, 76)):
        assert abs(got[name] - 4000 * share) <= most, name


@given(groups, groups, shares, st.integers(0, 5))
def test_added_rows_move_none(names: list[str], more: list[str], splits: SplitsConfig, seed: int):
    before = deal_tasks([task(f"t{n}", group=name) for n, name in enumerate(names)], splits, seed=seed)
    rows = [task(f"new{n}", group=name) for n, name in enumerate(more)] + [
        replace(row, split="train") for row in before
    ]
    assert deal_tasks(rows, splits, seed=seed)[len(more) :] == before


@given(groups, shares, st.sampled_from(DEALT_SPLITS), st.integers(1, 200), st.integers(0, 5))
def test_a_larger_count_moves_groups_only_into_its_split(
    names: list[str], splits: SplitsConfig, name: Split, more: int, seed: int
):
    # Read from right to left: a smaller count moves groups only out of its split.
    larger = splits.model_copy(update={name: getattr(splits, name) + more})
    for group in names:
        before, after = deal_group(group, splits, seed=seed), deal_group(group, larger, seed=seed)
        assert after in (before, name)


def test_seeds_deal_differently():
    names = [f"g{number}" for number in range(1000)]
    splits = SplitsConfig(train=80, validation=5, gate=5, test=10)
    # By chance 0.8² + 0.05² + 0.05² + 0.1² = 65.5 % agree between two seeds.
    same = sum(deal_group(name, splits, seed=0) == deal_group(name, splits, seed=1) for name in names)
    assert 600 < same < 710


def test_the_split_column_decides_if_any_row_has_something_there():
    assert split_column_decides([{"split": "train"}, {"split": "off_distribution"}])
    assert not split_column_decides([{"a": 1}, {"split": None}, {"split": " "}])
    assert split_column_decides([{"split": "val"}, {"split": "test"}, {"a": 1}])
    assert split_column_decides([{"split": "training"}, {"split": "testing"}])  # it would be trained on else


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


def test_a_question_in_two_wordings_stays_in_one_split():
    # "4 + 3 =" and "4+3 =" are two prompts of one question, "4 + 3" and "4  + 3" in a template, say.
    one, other = task("a", "test", prompt="4 + 3 ="), task("b", "train", prompt="4+3 =")
    assert len(drop_duplicates([one, other], Claims())) == 2
    claims = Claims()
    assert drop_duplicates([replace(one, question_key="q"), replace(other, question_key="q")], claims) == [
        replace(one, question_key="q")
    ]
    assert claims.dropped == {"train: also in test": 1}


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
