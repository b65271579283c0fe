import importlib.util
import json
import random
import subprocess
import sys
from itertools import islice, pairwise
from typing import Any

import pytest

from rlft.config import SourceConfig
from rlft.config.bounds import LARGEST_SEED
from rlft.errors import TaskError
from rlft.tasks import reasoning_gym
from rlft.tasks.draw import DRAWS_PER_TASK, SPARE_DRAWS, draw_tasks, split_seed
from rlft.tasks.duplicates import Claims
from rlft.tasks.reasoning_gym import draw_rows, import_reasoning_gym, load_generator, pycosat_placeholder
from rlft.tasks.sources import BadRow, BadRows, RawRow
from rlft.types import SPLITS

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


def test_splits_draw_with_seeds_far_apart():
    claims, bad = Claims(), BadRows(0)
    wanted = {"train": 100, "validation": 10, "gate": 20, "test": 30}
    drawn = draw_tasks(
        source("chain_sum", generator_kwargs=SMALL), wanted, environment="e:E", seed=7, claims=claims, bad=bad
    )
    # test, gate, validation, train: 7, and 2^28 = 268435456 once, twice and three times on top
    assert drawn.seeds == {"test": 7, "gate": 268435463, "validation": 536870919, "train": 805306375}
    for task in drawn.tasks:
        start, end = drawn.indices[task.split]
        assert start == 0 <= task.info["index"] < end
        assert task.info["seed"] == drawn.seeds[task.split]
    # All 160 are different questions; every index drawn was either kept or counted as dropped.
    assert len({task.prompt[0]["content"] for task in drawn.tasks}) == 160
    assert {name: sum(task.split == name for task in drawn.tasks) for name in wanted} == wanted
    assert 160 + sum(claims.dropped.values()) == sum(end for _, end in drawn.indices.values())


def test_the_seeds_of_splits_stay_what_numpy_takes_and_never_meet():
    # 5 * 2^28 is less than 2^32, so no two of five seeds are equal where they begin anew at 0.
    for seed in (0, 2**31, LARGEST_SEED):
        seeds = sorted(split_seed(seed, split) for split in SPLITS)
        assert seeds[0] >= 0
        assert seeds[-1] <= LARGEST_SEED
        # a split draws ten times all tasks that a config can ask for, and 1000 more
        gaps = [after - before for before, after in pairwise([*seeds, seeds[0] + 2**32])]
        assert min(gaps) == 2**28 > DRAWS_PER_TASK * 14_000_000 + SPARE_DRAWS


def test_the_count_of_a_split_moves_no_task_of_another():
    # 500 gate tasks instead of 200 had taken 200 of the train tasks. Sums of ten terms are all different.
    def drawn(**counts: int) -> dict[str, list[str]]:
        wanted = {"train": 20, "validation": 5, "gate": 5, "test": 5} | counts
        config = source("chain_sum", generator_kwargs={"min_terms": 10, "max_terms": 10})
        tasks = draw_tasks(config, wanted, environment="e:E", seed=0, claims=Claims(), bad=BadRows(0)).tasks
        return {name: [task.id for task in tasks if task.split == name] for name in wanted}

    before = drawn()
    for name in before:
        after = drawn(**{name: 50})
        assert after[name][: len(before[name])] == before[name]
        assert all(after[other] == before[other] for other in before if other != name)


def test_too_few_different_tasks():
    wanted = {"train": 150, "test": 51}
    with pytest.raises(TaskError) as raised:
        draw_tasks(
            source("chain_sum", generator_kwargs=SMALL),
            wanted,
            environment="e:E",
            seed=0,
            claims=Claims(),
            bad=BadRows(0),
        )
    # test gets 51; then 10 draws for each of 201 tasks and 1000 to spare find all 200 that there are.
    assert raised.value.what == (
        "only 200 different tasks after 3010 draws for train, 201 are needed (train 150 + test 51)"
    )
    assert "lower the counts" in raised.value.fix


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
        draw_tasks(config, {"test": 1}, environment="e:E", seed=0, claims=Claims(), bad=BadRows(1))


@pytest.mark.parametrize(
    ("name", "kwargs", "where", "what", "fix"),
    [
        ("chain_sums", {}, "tasks.generator", "no generator 'chain_sums'", "did you mean chain_sum"),
        ("qqqqqq", {}, "tasks.generator", "no generator 'qqqqqq'", "known names: ab, acre"),
        ("chain_sum", {"max_term": 3}, "tasks.generator_kwargs", "takes no max_term", "did you mean max_terms"),
        ("chain_sum", {"size": 3}, "tasks.generator_kwargs", "takes no size", "come from `seed` and tasks.splits"),
        ("chain_sum", {"min_terms": 9}, "tasks.generator_kwargs", "max_terms must be >= min_terms", "correct the"),
    ],
)
def test_impossible_generators(name: str, kwargs: dict[str, Any], where: str, what: str, fix: str):
    with pytest.raises(TaskError) as raised:
        load_generator(name, kwargs, 0, 10)
    assert raised.value.where == where
    assert what in raised.value.what
    assert fix in raised.value.fix


@pytest.mark.skipif(not NO_PYCOSAT, reason="pycosat is installed")
def test_what_needs_pycosat_says_how_to_get_it():
    assert "pycosat" not in sys.modules  # the placeholder is gone once the package is imported
    with pytest.raises(TaskError) as raised:
        rows_of(source("zebra_puzzles"), 1)
    assert "pycosat is not installed" in raised.value.what
    assert raised.value.fix == "install the extra: pip install rlft[sat]"


def test_the_placeholder_imports_and_refuses_use():
    module = pycosat_placeholder()
    assert not hasattr(module, "__path__")
    with pytest.raises(ImportError, match=r"install the extra: pip install rlft\[sat\]"):
        module.itersolve([[1]])


def test_an_installed_pycosat_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    seen = []
    monkeypatch.delitem(sys.modules, "reasoning_gym", raising=False)
    monkeypatch.setattr(reasoning_gym.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(reasoning_gym.importlib, "import_module", lambda name: seen.append("pycosat" in sys.modules))
    import_reasoning_gym()
    assert seen == [False]


def test_the_slow_packages_are_imported_when_they_are_used():
    slow = {"torch", "datasets", "reasoning_gym", "pandas", "pyarrow", "zenml", "mlflow"}
    code = f"import rlft.tasks, sys; print(sorted({slow!r} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
