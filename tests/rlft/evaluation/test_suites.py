from dataclasses import replace

import numpy as np
import pytest

from rlft.evaluation.suites import compare_models, evaluate_cell
from rlft.outcome import Failure
from rlft.tasks.splits import as_one_split
from rlft.types import Rewards, Rollouts
from tests.factories import make_reward, make_rollout, make_scored, make_task, make_task_set


def measured(totals, tasks, slices=(), **changes):
    rollouts, rewards = make_scored(totals, **changes)
    return evaluate_cell(rollouts, rewards, make_task_set(*tasks), list(slices), None)


def of(ids, **info):
    return [make_task(name, split="test", info={key: value[name] for key, value in info.items()}) for name in ids]


def test_pass_at_k_is_the_unbiased_estimate_for_every_k():
    # a is solved 1 of 4 times, b 2 of 4: pass@2 = 1 - C(3,2)/C(4,2) = 1/2 and 1 - C(2,2)/6 = 5/6; pass@3 = 3/4 and 1.
    _, found = measured({"a": [1, 0, 0, 0], "b": [1, 1, 0, 0]}, of("ab"))
    metrics = found.splits["test"].metrics
    expected = {1: (1 / 4 + 2 / 4) / 2, 2: (1 / 2 + 5 / 6) / 2, 3: (3 / 4 + 1) / 2, 4: 1.0}
    assert {k: metrics[f"pass_at_{k}"].mean for k in expected} == pytest.approx(expected)
    assert metrics["pass_at_k"] == metrics["pass_at_4"]
    assert metrics["avg_at_k"].mean == pytest.approx(expected[1])


def test_attempts_without_a_score_are_counted_and_left_out_of_every_other_metric():
    # a: 1 of the 1 that has a score, so that of two attempts no more is known than of one.
    evaluation, found = measured({"a": [1, None], "b": [0, 0]}, of("ab"))
    split = found.splits["test"]
    assert (split.tasks, split.attempts, sum(split.errors.values())) == (2, 4, 1)
    means = {name: split.metrics[name].mean for name in ("errored", "accuracy", "pass_at_1", "pass_at_2", "maj_at_k")}
    assert means == {"errored": 0.25, "accuracy": 0.5, "pass_at_1": 0.5, "pass_at_2": 0.5, "maj_at_k": 0.0}
    assert evaluation.splits["test"].errors == {"a": 1}
    _, nothing = measured({"a": [None]}, of("a"))
    assert set(nothing.splits["test"].metrics) == {"errored"}


def test_slices_have_all_metrics_of_their_own_tasks():
    tasks = of("abc", kind={"a": "x", "b": "y", "c": "y"})
    _, found = measured({"a": [1, 1], "b": [0, 0], "c": [1, 0]}, tasks, ["kind"])
    kinds = found.splits["test"].slices["kind"]
    assert {name: metrics["accuracy"].mean for name, metrics in kinds.items()} == {"x": 1.0, "y": 0.25}
    assert kinds["y"]["pass_at_2"].mean == 0.5
    assert kinds["y"]["accuracy"].count == 2


def test_length_turns_calls_and_seconds_are_means_over_tasks():
    tasks = of("ab")
    rows, rewards = [], []
    for name, tokens, calls in (("a", 4, 0), ("a", 2, 2), ("b", 6, 1)):
        length = 3 + tokens
        mask = np.arange(length) >= 3
        made = make_rollout(name, sample=len(rows))
        rollout = replace(
            made, token_ids=np.zeros(length, np.int32), loss_mask=mask, logprobs=np.zeros(length, np.float32),
            prompt_length=3, tool_calls=calls, tool_errors=min(calls, 1), turns=calls + 1, seconds=2.0,
        )  # fmt: skip
        rows.append(rollout)
        rewards.append(make_reward(rollout, 1.0))
    found = evaluate_cell(Rollouts(tuple(rows), metrics={"flops": 3.0, "perf/x": 1.0}), Rewards(tuple(rewards), {}),
                          make_task_set(*tasks), [], 3.0)[1]  # fmt: skip
    metrics = {name: interval.mean for name, interval in found.splits["test"].metrics.items()}
    # Task a has 4 and 2 tokens, so 3, and b 6: 4.5. Calls (0 + 2) / 2 = 1 and 1; failures (0 + 1) / 2 and 1.
    assert metrics["completion_length"] == metrics["sampled_tokens"] == 4.5
    assert (metrics["tool_calls"], metrics["tool_failures"], metrics["turns"]) == (1.0, 0.75, 2.0)
    assert (metrics["prompt_tokens"], metrics["seconds"]) == (3.0, 2.0)
    assert found.totals == {"flops": 3.0}


def test_tokens_of_a_model_behind_an_address_are_unknown_and_not_zero():
    rollout = replace(make_rollout("a"), token_ids=np.zeros(0, np.int32), loss_mask=np.zeros(0, np.bool_),
                      logprobs=np.zeros(0, np.float32), prompt_length=0)  # fmt: skip
    rewards = Rewards((make_reward(rollout, 1.0),), {})
    found = evaluate_cell(Rollouts((rollout,)), rewards, make_task_set(*of("a")), [], None)[1]
    assert "sampled_tokens" not in found.splits["test"].metrics
    assert found.splits["test"].metrics["turns"].mean == 1


def test_errors_are_counted_by_what_failed():
    rollouts = (
        replace(make_rollout("a"), error=Failure("engine", "gone")),
        make_rollout("b"),
    )
    rewards = (
        make_reward(rollouts[0], None, error=Failure("rollout", "engine: gone")),
        make_reward(rollouts[1], None, error=Failure("compute_reward", "KeyError")),
    )
    found = evaluate_cell(Rollouts(rollouts), Rewards(rewards, {}), make_task_set(*of("ab")), [], None)[1]
    assert found.splits["test"].errors == {"compute_reward": 1, "engine": 1}


@pytest.mark.slow
def test_a_pair_of_models_is_told_in_a_sentence():
    ids = [f"t{place:02d}" for place in range(40)]
    good, _ = measured({name: [1] for name in ids}, of(ids))
    bad, _ = measured({name: [0] for name in ids}, of(ids))
    pairs = compare_models({"held_out": {"bad": bad, "good": good, "same": bad}}, "accuracy")
    assert [(pair.first, pair.second) for pair in pairs] == [("bad", "good"), ("bad", "same"), ("good", "same")]
    better, equal, worse = pairs
    told = better.as_json()
    assert (told["before"], told["after"], told["mean"], told["tasks"]) == (0, 1, 1, 40)
    # The number of the model that the sentence is about stands first, and the difference has its sign.
    assert better.sentence.startswith(
        "On held_out (test) good is better than bad: accuracy 1.000 against 0.000, difference +1.000 (95 % interval +"
    )
    assert "same is worse than good: accuracy 0.000 against 1.000, difference -1.000 (" in worse.sentence
    assert equal.sentence.startswith(
        "On held_out (test) it cannot be told which of bad and same is better: accuracy 0.000 and 0.000, same minus "
        "bad +0.000 ("
    )


def test_a_model_without_any_score_is_told_of_and_not_compared():
    good, _ = measured({"a": [1], "b": [1]}, of("ab"))
    none, _ = measured({"a": [None], "b": [None]}, of("ab"))
    (pair,) = compare_models({"cell": {"good": good, "none": none}}, "accuracy")
    assert pair.as_json()["mean"] is None
    assert pair.sentence == "On cell (test) no task has a score for both good and none."


def test_all_tasks_of_a_source_can_be_one_split():
    tasks = make_task_set(make_task("a", split="train"), make_task("b", split="gate"))
    whole = as_one_split(tasks)
    assert [task.id for task in whole.split("test")] == ["a", "b"]
    assert whole.fingerprint != tasks.fingerprint
