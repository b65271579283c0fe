"""Every generator of reasoning-gym: gold is full, silence is nothing, junk is no error, and no answer is ever run."""

import ast
import asyncio
import importlib
import time
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from rlft.config import RewardConfig, SourceConfig
from rlft.environments.reasoning_gym import EVALUATE_EXPRESSIONS, EVALUATE_LITERALS, ReasoningGym
from rlft.rewards.scoring import score_rollouts
from rlft.tasks.reasoning_gym import draw_rows, import_reasoning_gym, load_generator
from rlft.tasks.rows import make_task
from rlft.tasks.sources import RawRow
from rlft.types import Rollouts, Task, Trajectory
from tests.rlft.attempts import attempt

PACKAGE = Path(import_reasoning_gym().__file__ or "").parent
GENERATORS = sorted(importlib.import_module("reasoning_gym.factory").DATASETS)
KWARGS = {"composite": {"datasets": [{"name": "chain_sum"}, {"name": "arc_1d", "weight": 2.0}]}}
NOT_HERE = {"zebra_puzzles": "needs pycosat, which needs a compiler"}
FACTORS = "2 \u00d7 2 \u00d7 3"
WITHOUT_GOLD = {"boxnet", "rush_hour"}  # any plan that works will do, and the item holds none
JUNK = (
    "42",
    "I do not know.",
    "nan",
    "inf",
    "1e9999",
    "9" * 5000,
    "((((",
    '{"a": 1}',
    "[1]",
    "\u00d7",
    "½",
    "lambda: 0",
)


def tasks_of(generator: str, count: int = 2) -> list[Task]:
    config = SourceConfig(source="reasoning_gym", generator=generator, generator_kwargs=KWARGS.get(generator, {}))
    rows = [r for r in islice(draw_rows(config, seed=0, expected=count, most=count), count) if isinstance(r, RawRow)]
    return [make_task(row, config, environment="e:E") for row in rows]


def score(task: Task, *texts: str) -> list[Any]:
    environment = ReasoningGym(partial_credit=True)
    rollouts = Rollouts(tuple(attempt(task, text, environment) for text in texts))
    weights = {"score": 0.0}
    return list(
        score_rollouts(rollouts, {task.id: task}, environment, RewardConfig(weights=weights, timeout_seconds=20))
    )


@pytest.mark.slow
@pytest.mark.parametrize("generator", [name for name in GENERATORS if name not in NOT_HERE])
def test_gold_is_full_silence_is_nothing_junk_is_no_error_and_no_answer_is_run_as_code(generator, tmp_path):
    tasks = tasks_of(generator)
    no_answer_runs(tasks[0], tmp_path / "ran")
    assert len(tasks) == 2
    golds = [ReasoningGym().gold_completion(task) for task in tasks]
    assert (None in golds) == (generator in WITHOUT_GOLD)
    for task, gold in zip(tasks, golds, strict=True):
        question = task.prompt[0]["content"]
        first, silence, echo, *junk, again = score(task, gold or "", "", question, *JUNK, gold or "")
        assert [row.error for row in (first, silence, echo, *junk)] == [None] * (3 + len(JUNK))
        assert first.solved == (gold is not None)
        assert silence.parts == {"correct": 0.0, "score": 0.0}
        assert not echo.solved
        assert [text for text, row in zip(JUNK, junk, strict=True) if row.solved and text != gold] == []
        assert again.parts == first.parts


def one(generator: str, question: str, answer: Any, **metadata: Any) -> Task:
    entry = {"question": question, "answer": answer, "metadata": {"source_dataset": generator, **metadata}}
    info = {"generator": generator, "generator_kwargs": {}, "entry": entry}
    return Task("x", "e:E", ({"role": "user", "content": question},), answer, info, "train", "x")


@pytest.mark.parametrize(
    ("task", "right", "wrong"),
    [
        # "nan" is at no distance; 0 is a prefix of 0.125; any text is true; 6*4*1*1 is 24 with other numbers; 49/2 too
        (one("complex_arithmetic", "?", "3 + 4i", result=[3.0, 4.0]), ["3 + 4i"], ["nan", "NaN", "nanj"]),
        (one("coin_flip", "?", "0.125"), ["0.125", "1/8"], ["0", "0.1", "1e999999999"]),
        (one("game_of_life_halting", "?", "False"), ["False", "false"], ["True", "no idea"]),
        (one("puzzle24", "?", "8*3/(2-1)", numbers=[8, 3, 2, 1]), ["8*3/(2-1)", "3*8*(2-1)"], ["6*4*1*1", "8*3+1/2"]),
        # An unevaluated integral is the problem itself.
        (
            one("simple_integration", "?", "x**2 + C", variable="x", integrand="2*x"),
            ["x**2 + C", "x**2"],
            ["Integral(2*x, x)", "integrate(2*x)", "x**2*Integral(0*x, x)"],
        ),
        (one("polynomial_multiplication", "?", "x**2 - 1"), ["x**2 - 1", "-1 + x*x"], ["expand((x-1)*(x+1))"]),
    ],
)
def test_what_verifiers_take_for_right(task, right, wrong):
    assert [row.solved for row in score(task, *right)] == [True] * len(right)
    rows = score(task, *wrong)
    assert [(row.solved, row.error) for row in rows] == [(False, None)] * len(wrong)


CODE = (
    "open({path!r}, 'w')",
    "[open({path!r}, 'w')]",
    "__import__('pathlib').Path({path!r}).touch()",
    "(lambda: __import__('pathlib').Path({path!r}).touch())()",
    "sympify(\"open({path!r}, 'w')\")",
    "[[x for x in [open({path!r}, 'w')]]]",
)


@pytest.mark.parametrize("generator", sorted(EVALUATE_LITERALS))
def test_no_answer_is_run_as_code_without_a_parenthesis(generator):
    # A comprehension assigns to what stands between `for` and `in`; with `__class_getitem__` brackets then call.
    (task,) = tasks_of(generator, 1)
    marked = type(load_generator(generator, {}, seed=0, size=1))
    name = marked.__name__
    ways = (
        f"[0 for {name}.changed in [1]]",
        f"[0 for {name}.__class_getitem__ in [str.upper] for {name}.x in {name}['a']]",
    )
    assert [(row.parts["score"], row.error) for row in score(task, *ways)] == [(0.0, None)] * 2
    assert not hasattr(marked, "changed")
    assert "__class_getitem__" not in vars(marked)


def test_an_answer_that_counts_for_ever_is_not_run():
    # Ten to the twelfth turns, in 200 characters.
    (task,) = tasks_of("binary_matrix", 1)
    (row,) = score(task, "[0" + " for a in 'aaaaaaaaaa'" * 12 + "]")
    assert (row.parts["score"], row.error) == (0.0, None)


def test_every_board_and_a_list_of_the_answer_still_reach_the_verifier():
    (task,) = tasks_of("n_queens", 1)
    boards = task.info["entry"]["metadata"]["valid_answers"]
    lists = str([board.split() for board in boards[-1].split("\n")])
    assert [row.parts["score"] for row in score(task, *boards, lists)] == [1.0] * len(boards) + [0.5]


@pytest.mark.parametrize("generator", sorted(EVALUATE_LITERALS | EVALUATE_EXPRESSIONS))
def test_no_answer_is_run_as_code(generator, tmp_path):
    no_answer_runs(tasks_of(generator, 1)[0], tmp_path / "ran")


def no_answer_runs(task: Task, path: Path) -> None:
    """Answers that would make a file are wrong, and there is none."""
    rows = score(task, *(code.format(path=str(path)) for code in CODE))
    assert not path.exists()
    assert not any(row.solved for row in rows)


def test_an_answer_that_would_take_for_ever_is_not_computed():
    for generator in sorted(EVALUATE_LITERALS | EVALUATE_EXPRESSIONS):
        (task,) = tasks_of(generator, 1)
        rows = score(task, "10**10**8", "9" * 4000, "exp(" * 40 + "1" + ")" * 40, "-" * 9000 + "1")
        assert [(row.solved, row.error) for row in rows] == [(False, None)] * 4


def test_an_object_that_would_be_compared_for_hours_is_no_answer():
    (task,) = tasks_of("codeio", 1)
    started = time.thread_time()
    environment = ReasoningGym()
    completion = Trajectory([{"role": "assistant", "content": '{"a": [' + "1," * 50_000 + "1]}"}], task=task)
    assert asyncio.run(environment.compute_reward(completion, None)) == {"correct": 0.0}
    assert time.thread_time() - started < 10  # it took 2 s for 4,000 characters, and 7 s for 8,000


@pytest.mark.slow
def test_the_verifiers_that_evaluate_are_known():
    # codeio runs the data set's own code, number_sorting evaluates its own answer.
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name == "score_answer":
                called = {
                    ast.unparse(each.func).split(".")[-1] for each in ast.walk(node) if isinstance(each, ast.Call)
                }
                found |= {path.stem} if called & {"eval", "exec", "parse_expr", "sympify"} else set()
    assert found - {"number_sorting"} == EVALUATE_LITERALS | EVALUATE_EXPRESSIONS


def test_a_verifier_that_cannot_score_its_own_gold_is_an_error():
    task = one("prime_factorization", "Factors of 12?", "two and three")
    (row,) = score(task, FACTORS)
    assert row.total is None
    assert "ValueError" in str(row.error)
    sound = one("prime_factorization", "Factors of 12?", FACTORS)
    wrong, right = score(sound, "two and three", FACTORS[::-1])
    assert (wrong.parts["score"], wrong.error, right.solved) == (0.0, None, True)
