"""What every shipped environment must do: pay gold in full and silence nothing, the same each time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from rlft.config import RewardConfig
from rlft.environments.contract.base import BaseEnv
from rlft.environments.gsm8k import GSM8K
from rlft.environments.maths import Maths
from rlft.environments.reasoning_gym import ReasoningGym
from rlft.environments.stories import Stories
from rlft.harness.scripted import Part, as_script, play_scripts
from rlft.rewards.scoring import score_rollouts
from rlft.tasks.reasoning_gym import load_generator
from rlft.types import Rollouts, Task
from tests.rlft.attempts import audited, make_task


def maths() -> list[Task]:
    return [make_task(f"m{n}", f"Ann has {n} apples and buys 5. How many?", str(n + 5)) for n in range(1, 6)]


def stories() -> list[Task]:
    words = ("cat", "boat", "happy", "said", "red")
    return [make_task(f"s{n}", "Once upon a time there was", word) for n, word in enumerate(words)]


def generated(generator: str) -> list[Task]:
    dataset = load_generator(generator, {}, seed=3, size=5)
    return [
        make_task(
            f"g{n}", dataset[n]["question"], None, generator=generator, generator_kwargs={}, entry=dict(dataset[n])
        )
        for n in range(5)
    ]


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[[], BaseEnv]
    tasks: Callable[[], list[Task]]
    weights: dict[str, float]


CASES = [
    *(
        Case(f"gsm8k-{form}", lambda form=form: GSM8K(form), maths, {"format": weight})
        for form, weight in (("hashes", 0.0), ("a_colon", 0.1), ("answer_is", 0.0), ("boxed", 1.0))
    ),
    Case("maths", Maths, maths, {"format": 0.1}),
    Case("stories", Stories, stories, {}),
    Case("stories-long", lambda: Stories(min_sentences=12), stories, {}),
    Case("chain_sum", ReasoningGym, lambda: generated("chain_sum"), {}),
    Case("chain_sum-partial", lambda: ReasoningGym(partial_credit=True), lambda: generated("chain_sum"), {}),
    Case(
        "leg_counting-pattern",
        lambda: ReasoningGym(answer_pattern=r"Answer: (.+)", gold_template="Answer: {answer}"),
        lambda: generated("leg_counting"),
        {},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_gold_is_full_silence_is_nothing_and_attacks_earn_less(case):
    environment, tasks = case.make(), case.tasks()
    for task in tasks:
        gold = environment.gold_completion(task)
        assert gold is not None
        other = environment.gold_completion(tasks[task is tasks[0]])
        texts = (gold, "", task.prompt[0]["content"], other or "", "I do not know.", "42", gold)
        rows = score_rollouts(
            Rollouts(tuple(play_scripts([Part("r", task, as_script(text)) for text in texts], environment))),
            {task.id: task},
            environment,
            RewardConfig(weights=case.weights, timeout_seconds=5.0),
        ).rows
        assert [row.error for row in rows] == [None] * len(rows)
        first, silence, *attacks, again = rows
        assert first.solved
        assert silence.total == 0.0
        assert set(silence.parts.values()) == {0.0}
        wrong = [attack for attack in attacks if attack.answer is None or attack.answer != first.answer]
        assert len(wrong) >= 3  # another story may have the word as well
        assert all(attack.total < first.total for attack in wrong), [attack.parts for attack in wrong]
        assert not any(attack.solved for attack in wrong)
        assert (again.total, again.parts, again.answer) == (first.total, first.parts, first.answer)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_audit_passes(case):
    report = audited(case.tasks(), case.make(), weights=case.weights, timeout_seconds=5.0)
    assert report.passed, report.text()


SCORED = r"""
import asyncio, json, sys
from rlft.config.section import SPECIFICATION
from rlft.config.environment import PLAIN
from rlft.environments.contract.loading import load_environment
from rlft.types import Trajectory
from tests.rlft.attempts import audited, make_task
graders = [
    {"type": "list", "ordered": True, "compared": "f1"}, {"type": "date", "gold": "2014-03-03"},
    {"type": "number", "gold": "3 m"},
]
criteria = {f"c{number}": {"says": "It is so.", "grader": grader} for number, grader in enumerate(graders)}
specified = load_environment(PLAIN, {SPECIFICATION: json.dumps({"criteria": criteria})})
maths = load_environment("rlft.environments.maths:Maths", {})
before = {name.partition(".")[0] for name in sys.modules}
for environment, answer in ((maths, "\\boxed{1+x}"), (specified, "3 March 2014")):
    said = Trajectory([{"role": "assistant", "content": answer}], task=make_task("t", "q", "x+1"))
    print(asyncio.run(environment.compute_reward(said, "x+1")))
print(sorted({name.partition(".")[0] for name in sys.modules} - before - sys.stdlib_module_names))
"""


@pytest.mark.slow
def test_no_package_is_imported_while_a_score_is_timed():
    # A thread that is left behind in the middle of an import leaves half of the package to all later scores.
    run = subprocess.run([sys.executable, "-c", SCORED], capture_output=True, text=True, check=False)
    assert run.stdout.splitlines()[-1:] == ["[]"], run.stderr
