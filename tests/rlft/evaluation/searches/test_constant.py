"""A policy that says the same to everything is measured, so that none that is no better is taken for a success."""

from __future__ import annotations

from dataclasses import replace

import pytest

import rlft
from rlft.config import HarnessConfig, RewardConfig
from rlft.environments.contract.several import Several
from rlft.errors import JudgeGoneError
from rlft.evaluation.searches.constant import best_constant
from rlft.types import TaskSet
from tests.rlft.attempts import make_task


class Sums(rlft.BaseEnv):
    """Right earns 1, a question mark 0, and a wrong answer costs 2."""

    async def compute_reward(self, completion, ground_truth):
        text = completion.text.strip()
        return {"points": 1.0 if text == ground_truth else 0.0 if text == "?" else -2.0}


class Labels(rlft.BaseEnv):
    async def compute_reward(self, completion, ground_truth):
        return {"right": float(completion.text == ground_truth)}


class Broken(rlft.BaseEnv):
    async def compute_reward(self, completion, ground_truth):
        raise ValueError("no judge today")


class Gone(rlft.BaseEnv):
    async def compute_reward(self, completion, ground_truth):
        raise JudgeGoneError("the judge did not answer")


def task_set(answers, count=40):
    splits = ("train", "validation", "gate", "test")
    rows = [(split, n, answers[n % len(answers)]) for split in splits for n in range(count)]
    tasks = [make_task(f"{split}{n}", f"q{n} of {split}", answer) for split, n, answer in rows]
    return TaskSet(tuple(_in(task, split) for task, (split, *_) in zip(tasks, rows, strict=True)), "f")


def _in(task, split):
    return rlft.Task(task.id, task.environment, task.prompt, task.answer, task.info, split, task.id)


def best(environment, tasks, said=(), metric="reward"):
    return best_constant(
        tasks, said, environment, RewardConfig(), HarnessConfig(), metric=metric, splits=["gate", "test"]
    )


def test_what_a_policy_says_often_is_tried():
    # Of ten answers each is right once in ten: 0.1 - 0.9 * 2 = -1.7. A question mark earns 0 on every task.
    tasks = task_set([str(n) for n in range(10)])
    found = best(Sums(), tasks, said=["?", "7"])
    assert found.text == "?"
    assert found.tried == {"": -2.0, "I do not know.": -2.0, "0": -1.7, "1": -1.7, "2": -1.7, "?": 0.0, "7": -1.7}
    assert {split: report.metrics["reward"].mean for split, report in found.splits.items()} == {"gate": 0, "test": 0}
    assert found.splits["gate"].policy == "constant answer '?'"
    assert found.name == "'?'"


def test_the_most_common_right_answer_is_tried_without_being_said():
    found = best(Labels(), task_set(["yes", "yes", "yes", "no"]), metric="accuracy")
    assert found.text == "yes"
    assert found.splits["test"].metrics["accuracy"].mean == 0.75
    assert found.splits["test"].metrics["accuracy"].count == 40


def test_it_is_chosen_on_validation_and_not_by_what_it_is_measured_on():
    # On validation `a` is right everywhere, on gate and test `b`.
    tasks = task_set(["b"])
    mixed = tuple(
        rlft.Task(t.id, t.environment, t.prompt, "a" if t.split == "validation" else "b", t.info, t.split, t.group)
        for t in tasks.tasks
    )
    found = best(Labels(), TaskSet(mixed, "f"), said=["a"], metric="accuracy")
    assert (found.text, found.splits["gate"].metrics["accuracy"].mean) == ("a", 0.0)


def test_saying_nothing_is_an_answer():
    class Silence(rlft.BaseEnv):
        async def compute_reward(self, completion, ground_truth):
            return {"short": float(not completion.text)}

    found = best(Silence(), task_set(["x"]))
    assert (found.text, found.name) == ("", "saying nothing")


class Fussy(rlft.BaseEnv):
    """Names another part where nothing was said, so that totals of a set of attempts cannot be compared."""

    async def compute_reward(self, completion, ground_truth):
        if not completion.text and "7" in ground_truth:
            return {"missing": 0.0}
        return {"right": float(completion.text == ground_truth)}

    def gold_completion(self, task):
        if task.answer == "3":
            raise KeyError("no gold")
        return task.answer


def test_an_answer_whose_scoring_stops_is_left_out_and_never_ends_a_run_that_has_trained(caplog):
    found = best(Fussy(), task_set([str(n) for n in range(10)]), metric="accuracy")
    assert "" not in found.tried
    assert "the constant answer '' is left out" in caplog.text
    assert found.splits["test"].metrics["accuracy"].mean == 0.1
    assert "3" not in found.tried  # nor does a gold completion that raises


def test_where_every_score_fails_there_is_no_constant_answer():
    found = best(Broken(), task_set(["x"]))
    assert (found.splits, found.tried) == ({}, {})


def test_a_judge_that_is_gone_ends_it_so_that_a_resume_can_do_it_again():
    with pytest.raises(JudgeGoneError, match="the judge did not answer"):
        best(Gone(), task_set(["x"]))


def test_each_of_several_environments_has_a_constant_answer_of_its_own():
    def named(environment, answers):
        asked = {t.id: make_task("", f"{environment} {t.text}", "").prompt for t in task_set(answers).tasks}
        return [
            replace(task, id=f"{environment}/{task.id}", environment=environment, prompt=asked[task.id])
            for task in task_set(answers).tasks
        ]

    tasks = TaskSet((*named("sums", ["4", "5"]), *named("labels", ["yes", "yes", "yes", "no"])), "f")
    settings = RewardConfig(members={"sums": RewardConfig(), "labels": RewardConfig()})
    several = Several({"sums": Sums(), "labels": Labels()})
    found = best_constant(
        tasks, ["?", "yes"], several, settings, HarnessConfig(), metric="reward", splits=["gate", "test"]
    )
    # In sums a question mark costs nothing, and a wrong answer 2; three of four labels are "yes".
    assert (found.text, found.texts) == ("", {"sums": "?", "labels": "yes"})
    assert found.name == "'?' in sums, 'yes' in labels"
    assert found.splits["test"].metrics["reward"].mean == 0.375  # of 40 sums 0, of 40 labels 0.75
    assert found.splits["test"].metrics["environments/labels/accuracy"].mean == 0.75
    assert found.tried["sums: yes"] == -2.0
    assert found.tried["labels: yes"] == 0.75
    several.members["sums"] = Broken()
    broken = best_constant(tasks, [], several, settings, HarnessConfig(), metric="reward", splits=["gate"])
    assert broken.splits == {}
