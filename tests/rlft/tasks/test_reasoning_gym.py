import importlib.util
import json
import random
import re
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlft.config import SourceConfig
from rlft.config.file import load_config
from rlft.config.section import LARGEST_SEED
from rlft.errors import TaskError
from rlft.tasks import reasoning_gym
from rlft.tasks.reasoning_gym import (
    DRAWS_PER_TASK,
    SEED_STEP,
    SPARE_DRAWS,
    Drawn,
    draw_rows,
    draw_tasks,
    load_generator,
    second_seed,
)
from rlft.tasks.sources import BadRow, BadRows, RawRow, Reading
from rlft.tasks.splits import DEALT_SPLITS, SHARES, Claims, own_share
from rlft.types import SPLITS, Split

NO_PYCOSAT = importlib.util.find_spec("pycosat") is None
# Sums of two numbers of one digit: 10 * 10 numbers and two signs are 200 different questions.
SMALL = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}


def source(generator: str, **more: Any) -> SourceConfig:
    return SourceConfig.model_validate({"source": "reasoning_gym", "generator": generator, **more})


def rows_of(config: SourceConfig, count: int, *, seed: int = 0, expected: int = 10) -> list[RawRow]:
    rows = list(islice(draw_rows(config, seed=seed, expected=expected, most=1000), count))
    return [row for row in rows if isinstance(row, RawRow)]


def test_an_item_is_the_generators_own_and_holds_what_scoring_needs():
    (row,) = rows_of(source("chain_sum", first_index=4, generator_kwargs=SMALL), 1, seed=3)
    # chain_sum draws from Random(seed + index): how many terms, how many digits, each term, then each sign.
    rng = random.Random(3 + 4)
    rng.randint(2, 2), rng.randint(1, 1)
    left, right = rng.randint(0, 9), rng.randint(0, 9)
    sign = rng.choice("+-")
    assert row.place == "chain_sum[4]"
    assert row.row["metadata"]["expression"] == f"{left} {sign} {right}"
    assert row.row["answer"] == str(left + right if sign == "+" else left - right)
    assert row.info == {"generator": "chain_sum", "generator_kwargs": SMALL, "seed": 3, "index": 4, "entry": row.row}
    dataset = load_generator("chain_sum", SMALL, 3, 5)
    assert dataset.score_answer(row.row["answer"], json.loads(json.dumps(row.info))["entry"]) == 1.0


def test_items_go_on_where_the_expected_number_ends():
    # expected 3, asked for 8: made for 3, then 6, then 12 items, without a repeat or a gap
    rows = rows_of(source("chain_sum", first_index=5), 8, expected=3)
    assert [row.place for row in rows] == [f"chain_sum[{index}]" for index in range(5, 13)]
    assert len(list(draw_rows(source("chain_sum"), seed=0, expected=3, most=10))) == 10


def drawn_of(config: SourceConfig, wanted: dict[Split, int], *, seed: int = 0, claims: Claims | None = None) -> Drawn:
    return draw_tasks(config, wanted, Reading("e:E", BadRows(0), claims or Claims()), seed=seed)


def questions(drawn: Drawn) -> dict[Split, list[str]]:
    """The questions of each split, in the order in which they were drawn."""
    found: dict[Split, list[str]] = {name: [] for name in SPLITS}
    for task in drawn.tasks:
        found[task.split].append(task.question_key)
    return found


def test_every_split_takes_its_own_questions_from_one_stream():
    claims = Claims()
    wanted: dict[Split, int] = {"train": 90, "validation": 10, "gate": 20, "test": 20}
    drawn = drawn_of(source("chain_sum", generator_kwargs=SMALL), wanted, seed=7, claims=claims)
    assert {name: len(found) for name, found in questions(drawn).items() if found} == wanted
    assert len({task.prompt[0]["content"] for task in drawn.tasks}) == 140
    for task in drawn.tasks:
        assert task.split == own_share(task.question_key, seed=7)
        assert (task.info["seed"], drawn.first) == (7, 0)
        assert task.info["index"] < drawn.end
    # Every index drawn was kept, a repetition, or of a split that had enough.
    assert 140 + drawn.spare + claims.dropped.total() == drawn.end


@pytest.mark.slow
def test_the_shares_of_questions_are_fixed():
    # Of 12,000 questions four standard deviations sqrt(n p (1 - p)) are 216, 163 and 121.
    got = Counter(own_share(f"q{number}", seed=0) for number in range(12_000))
    for name, twelfths, most in (("train", 7, 216), ("gate", 2, 163), ("test", 2, 163), ("validation", 1, 121)):
        assert SHARES[name] == Fraction(twelfths, 12)
        assert abs(got[name] - 1000 * twelfths) <= most, name
    # A change here moves the tasks of everybody's gate: printed once, and kept.
    assert (
        " ".join(own_share(f"q{number}", seed=0) for number in range(8))
        == "train train train train gate train test gate"
    )


def test_two_sources_never_share_an_item():
    # 10 million tasks of train take 10 / (7/12) draws each, 1 million of validation 120 each
    most = max(10_000_000 * DRAWS_PER_TASK / SHARES["train"], 1_000_000 * DRAWS_PER_TASK / SHARES["validation"])
    for seed in (0, 2**31, LARGEST_SEED):
        apart = abs(seed - second_seed(seed))
        assert 0 <= second_seed(seed) <= LARGEST_SEED
        assert min(apart, 2**32 - apart) == SEED_STEP > most + SPARE_DRAWS


counts = st.fixed_dictionaries(
    {"train": st.integers(1, 60), **{name: st.integers(1, 9) for name in ("validation", "gate", "test")}}
)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(counts, st.sampled_from(DEALT_SPLITS), st.integers(1, 60), st.integers(0, 3))
def test_no_count_moves_a_task_of_another_split(wanted: dict[Split, int], name: Split, count: int, seed: int):
    # Only 200 questions, so nearly all draws repeat one. What a split gains by a larger count comes after what it had.
    config = source("chain_sum", generator_kwargs=SMALL)
    before = questions(drawn_of(config, wanted, seed=seed))
    after = questions(drawn_of(config, wanted | {name: min(count, 60 if name == "train" else 9)}, seed=seed))
    for split in DEALT_SPLITS:
        shorter = min(len(before[split]), len(after[split]))
        assert before[split][:shorter] == after[split][:shorter]
        assert len(before[split]) == len(after[split]) or split == name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gate", "validation"])
def test_the_counts_of_the_shipped_sums_move_no_task(name: Split):
    # A gate of 500 instead of 200 had taken 188 tasks of train: of 4,000 sums the splits ask for 3,200.
    config = load_config(Path("configs/sums.yaml")).tasks
    wanted: dict[Split, int] = {"train": 2000, "validation": 200, "gate": 200, "test": 500}
    before = questions(drawn_of(config, wanted))
    after = questions(drawn_of(config, wanted | {name: wanted[name] + 50}))
    assert after[name][: wanted[name]] == before[name]
    assert len(set(after[name])) == wanted[name] + 50
    assert all(after[other] == before[other] for other in SPLITS if other != name)


@pytest.mark.slow
def test_the_items_of_a_generator_that_depend_on_its_size_do_not_depend_on_counts():
    few = questions(drawn_of(source("acre"), {"train": 3, "test": 2}))
    more = questions(drawn_of(source("acre"), {"train": 3, "test": 20}))
    assert few["train"] == more["train"]
    assert few["test"] == more["test"][:2]


def test_a_prompt_that_two_questions_make_is_of_the_first_whatever_the_counts():
    # Of "4 + 3" and "4 + 1" only "4 +" is shown, so two questions that may be of two splits make one of twenty prompts.
    # The split of the first has it, also if it has enough tasks and does not take it.
    config = source("chain_sum", generator_kwargs=SMALL, prompt="{metadata[expression]:.3}")
    for seed in range(8):
        few, more = (drawn_of(config, {"train": count, "test": 1}, seed=seed) for count in (1, 7))
        assert len({task.prompt[0]["content"] for task in more.tasks}) == 8
        assert questions(few)["test"] == questions(more)["test"]
        assert questions(few)["train"] == questions(more)["train"][:1]


def test_too_few_different_tasks():
    with pytest.raises(TaskError) as raised:
        drawn_of(source("chain_sum", generator_kwargs=SMALL), {"train": 50, "test": 51})
    # A sixth of 200 questions is test's: 33, give or take 5. 10 * 6 * 51 draws and 1000 to spare find them all.
    assert re.fullmatch(
        r"only (\d\d) of 51 for test different tasks after 4060 draws",
        raised.value.what,
    )
    assert "lower tasks.splits" in raised.value.fix


@pytest.mark.slow
def test_too_few_off_distribution():
    with pytest.raises(TaskError, match="only 200 of 201 for off_distribution different tasks after 3010 draws"):
        drawn_of(source("chain_sum", generator_kwargs=SMALL), {"off_distribution": 201})


@pytest.mark.parametrize("generator", ["list_functions", "pool_matrix", "acre"])
def test_generators_that_use_global_random_state_or_their_size_draw_the_same_again(generator: str):
    random.seed(1)
    first = rows_of(source(generator), 30)
    random.seed(2)
    state = random.getstate()
    assert rows_of(source(generator), 30) == first
    assert random.getstate() == state  # and leave that state as it was


def test_an_item_that_fails_is_a_bad_row(monkeypatch: pytest.MonkeyPatch):
    class Broken:
        def __getitem__(self, index: int) -> dict[str, Any]:
            raise IndexError("no such thing")

    monkeypatch.setattr(reasoning_gym, "load_generator", lambda *args: Broken())
    config = source("chain_sum")
    assert next(draw_rows(config, seed=0, expected=1, most=1)) == BadRow(
        "chain_sum[0]", "could not be drawn: IndexError: no such thing"
    )
    with pytest.raises(TaskError, match="2 bad rows, 1 allowed"):  # and it does not go on to draw 1010
        draw_tasks(config, {"test": 1}, Reading("e:E", BadRows(1)), seed=0)


@pytest.mark.parametrize(
    ("name", "kwargs", "what"),
    [
        ("chain_sums", {}, "'chain_sums' not registered"),
        ("chain_sum", {"max_term": 3}, "unexpected keyword argument 'max_term'"),
        ("chain_sum", {"size": 3}, "multiple values for keyword argument 'size'"),
        ("chain_sum", {"min_terms": 9}, "max_terms must be >= min_terms"),
    ],
)
def test_impossible_generators(name: str, kwargs: dict[str, Any], what: str):
    with pytest.raises(TaskError) as raised:
        load_generator(name, kwargs, 0, 10)
    assert raised.value.where == "tasks.generator"
    assert what in raised.value.what


@pytest.mark.skipif(not NO_PYCOSAT, reason="pycosat is installed")
def test_what_needs_pycosat_says_how_to_get_it():
    with pytest.raises(TaskError) as raised:
        rows_of(source("zebra_puzzles"), 1)
    assert "pycosat is not installed" in raised.value.what
    assert raised.value.fix == "install the extra: pip install rlft[sat]"


@pytest.mark.slow
def test_the_slow_packages_are_imported_when_they_are_used():
    slow = {"torch", "datasets", "reasoning_gym", "pandas", "pyarrow", "zenml", "mlflow"}
    code = f"import rlft.tasks, sys; print(sorted({slow!r} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
