import dataclasses
import math

import numpy as np
import pytest

from rlft.evaluation.metrics import round_metrics
from rlft.outcome import Failure
from rlft.types import Judging, Reward, Rewards, Rollouts, add_judging, judging_in
from tests.rlft.evaluation.test_evaluate import reward, rollout


def make(task, sample, length, *, truncated=False, calls=0, failed=0, turns=1, error=None):
    return dataclasses.replace(
        rollout(task, sample, error),
        token_ids=np.zeros(5 + length, np.int32),
        loss_mask=np.zeros(5 + length, np.bool_),
        prompt_length=5,
        truncated=truncated,
        tool_calls=calls,
        tool_errors=failed,
        turns=turns,
    )


def rows():
    rollouts = (
        make("x", 0, 10, calls=3, failed=1, turns=4),
        make("x", 1, 20, truncated=True, calls=1, failed=1, turns=2),
        make("y", 0, 30),
        make("y", 1, 40),
        make("z", 0, 50),
        make("z", 1, 999, error=Failure("engine", "died")),
    )
    rewards = (
        reward("x", 0, 1.0, parts={"exact": 1.0, "style": 0.5}),
        reward("x", 1, 0.0, parts={"exact": 0.0, "style": None}),
        reward("y", 0, 1.0, parts={"exact": 1.0, "style": 0.7}),
        reward("y", 1, 1.0, parts={"exact": 1.0, "style": None}),
        reward("z", 0, None, parts={}),
        reward("z", 1, None, parts={}),
    )
    return Rollouts(rollouts), Rewards(rewards, {})


def test_metrics_of_a_round_by_value():
    assert round_metrics(*rows()) == pytest.approx(
        {
            "reward": 0.75,  # (1 + 0 + 1 + 1) / 4; the two without a score are left out
            "accuracy": 0.75,
            # Groups (1, 0) and (1, 1): sqrt(((1/2)^2 + (1/2)^2) / (2 - 1)) = 0.7071 and 0; their mean.
            "reward_std": math.sqrt(0.5) / 2,
            "frac_reward_zero_std": 0.5,
            "rewards/exact/mean": 0.75,
            # (1, 0, 1, 1): squares 3 * 1/16 + 9/16 = 3/4, over n - 1 = 3: sqrt(1/4).
            "rewards/exact/std": 0.5,
            "rewards/style/mean": 0.6,
            "rewards/style/std": math.sqrt(2 * 0.1**2),  # (0.5, 0.7), over n - 1 = 1
            "rewards/errored": 2.0,
            "completions/mean_length": 30.0,  # (10 + 20 + 30 + 40 + 50) / 5; the failed rollout has none
            "completions/max_length": 50.0,
            "completions/clipped_ratio": 0.2,
            "completions/clipped_accuracy": 0.0,  # the second of x earned nothing
            "completions/duplicate_ratio": 0.0,
            "completions/same_answer_ratio": 1.0,
            "completions/unanswered_ratio": 0.0,
            "completions/mean_terminated_length": 32.5,  # (10 + 30 + 40 + 50) / 4
            "tools/call_frequency": 0.8,  # 4 calls in 5 rollouts
            "tools/failure_frequency": 0.5,  # 2 of 4 calls
            "num_turns/mean": 1.8,  # (4 + 2 + 1 + 1 + 1) / 5
        }
    )


def test_what_is_said_again_at_one_task_is_a_duplicate():
    rollouts = tuple(make(task, sample, length) for task, sample, length in [("x", 0, 3), ("x", 1, 3), ("x", 2, 4)])
    rollouts += (make("y", 0, 3),)  # the same text as the first, at another task
    rewards = Rewards(tuple(reward(each.task_id, each.sample, 1.0) for each in rollouts), {})
    metrics = round_metrics(Rollouts((*rollouts[:2], make("x", 2, 4, truncated=True), rollouts[3])), rewards)
    assert metrics["completions/duplicate_ratio"] == 0.25
    assert metrics["completions/clipped_accuracy"] == 1.0


def repetition(*completions, sampled=None):
    rows = [
        dataclasses.replace(
            make("x", sample, len(said)),
            token_ids=np.array([0] * 5 + said, np.int32),
            loss_mask=np.array([False] * 5 + (sampled or [True] * len(said))),
        )
        for sample, said in enumerate(completions)
    ]
    rewards = Rewards(tuple(reward("x", sample, 1.0) for sample in range(len(rows))), {})
    return round_metrics(Rollouts(tuple(rows)), rewards).get("completions/repetition_ratio")


def test_runs_of_four_tokens_that_a_completion_has_said_before_are_repeats():
    assert repetition([1, 2, 3, 4, 5, 6]) == 0.0
    # 7 7 7 7 7 7 has the run 7 7 7 7 three times, of which two are repeats.
    assert repetition([7] * 6) == pytest.approx(2 / 3)
    # 1 2 3 4 1 2 3 4: five runs, of which the last is the first again. The mean is over completions.
    assert repetition([1, 2, 3, 4] * 2, [7] * 6) == pytest.approx((1 / 5 + 2 / 3) / 2)
    assert repetition([4, 3, 2, 1, 9, 1, 2, 3, 4]) == 0.0  # in another order
    assert repetition([7, 7, 7]) is None  # too short for a run
    # The results of tools are not the model's: without them 7 7 7 is too short.
    assert repetition([7] * 6, sampled=[True] * 3 + [False] * 3) is None


def test_answers_that_are_the_same_or_missing_and_rewards_that_contradict_each_other():
    said = [("x", 3, 1.0, "a"), ("x", 3, 0.0, "a"), ("x", 3, 1.0, "a"), ("x", 4, 0.0, None), ("y", 3, 0.0, "b")]
    rollouts = tuple(make(task, sample, length) for sample, (task, length, _, _) in enumerate(said))
    rewards = tuple(reward(task, sample, total, answer=answer) for sample, (task, _, total, answer) in enumerate(said))
    metrics = round_metrics(Rollouts(rollouts), Rewards(rewards, {}))
    assert metrics["completions/same_answer_ratio"] == 0.6  # three of five say a
    assert metrics["completions/unanswered_ratio"] == 0.2
    assert metrics["rewards/contradiction_ratio"] == 0.5  # two repeat the first, and one of them has not its reward
    cut = (*rollouts[:3], make("x", 3, 4, truncated=True), rollouts[4])
    metrics = round_metrics(Rollouts(cut), Rewards(rewards, {}))
    assert metrics["completions/unanswered_ratio"] == 0.0  # what is cut off has not had its end


def test_reward_std_is_that_of_torch():
    torch = pytest.importorskip("torch")
    values = [0.1, 0.7, 0.4]
    rollouts = Rollouts(tuple(make("x", i, 3) for i in range(3)))
    rewards = Rewards(tuple(reward("x", i, v) for i, v in enumerate(values)), {})
    assert round_metrics(rollouts, rewards)["reward_std"] == pytest.approx(torch.tensor(values).std().item(), abs=1e-6)


def test_without_data_a_metric_is_left_out():
    # One scored rollout: no deviation; no calls: no failure share; all truncated: no terminated length.
    metrics = round_metrics(
        Rollouts((make("x", 0, 4, truncated=True),)), Rewards((reward("x", 0, 0.5, parts={"exact": None}),), {})
    )
    absent = {"reward_std", "frac_reward_zero_std", "rewards/exact/mean", "tools/failure_frequency"}
    absent |= {"completions/mean_terminated_length"}
    assert not absent & set(metrics)
    assert metrics["tools/call_frequency"] == 0.0


def test_sampled_tokens_are_counted_and_those_of_prompts_and_tools_are_not():
    one = dataclasses.replace(make("x", 0, 3), loss_mask=np.array([False] * 5 + [True, False, True]))
    metrics = round_metrics(Rollouts((one, one), seconds=2.0), Rewards((reward("x", 0, 1.0, parts={}),) * 2, {}))
    assert (metrics["completions/sampled_tokens"], metrics["perf/tokens_per_second"]) == (4.0, 2.0)


def test_a_round_where_all_failed_says_only_that():
    rollouts = Rollouts((make("x", 0, 0, error=Failure("setup", "boom")),))
    assert round_metrics(rollouts, Rewards((reward("x", 0, None, parts={}),), {})) == {"rewards/errored": 1.0}
    assert round_metrics(Rollouts(()), Rewards((), {})) == {"rewards/errored": 0.0}


def test_rewards_of_other_rollouts_are_refused():
    other = Reward("nobody", "x", 1.0, {}, True, None, None, 0.0)
    with pytest.raises(ValueError, match="do not belong together"):
        round_metrics(Rollouts((make("x", 0, 1),)), Rewards((other,), {}))


def test_scores_of_turns_are_averaged_over_the_turns_that_have_one():
    scores = [(1.0, None), (0.0, 0.5)]
    rows = tuple(
        dataclasses.replace(reward("x", n, 1.0, parts={}), steps={"read": steps}) for n, steps in enumerate(scores)
    )
    metrics = round_metrics(Rollouts((make("x", 0, 3), make("x", 1, 3))), Rewards(rows, {}))
    assert metrics["step_rewards/read/mean"] == 0.5
    assert metrics["step_rewards/read/std"] == 0.5  # 1, 0 and 0.5: squares 0.25 + 0.25, over n - 1 = 2


def test_several_environments_have_rewards_of_their_own():
    rollouts = tuple(make(task, n, 10) for task in ("a/x", "b/y") for n in (0, 1))
    rewards = (
        reward("a/x", 0, 1.0, parts={"a/p": 1.0}),
        reward("a/x", 1, 0.5, parts={"a/p": 0.5}),
        reward("b/y", 0, -3.0, parts={"b/p": -3.0}),
        reward("b/y", 1, None, parts={}),
    )
    found = round_metrics(Rollouts(rollouts), Rewards(rewards, {}, members=("a", "b", "c")))
    named = {name: value for name, value in found.items() if name.startswith("environments/")}
    # Of `b` one attempt has a score, so nothing can differ; `c` has no attempts.
    assert named == {
        "environments/a/reward": 0.75,
        "environments/a/accuracy": 0.5,
        "environments/a/reward_std": pytest.approx(0.5 / math.sqrt(2)),
        "environments/a/frac_reward_zero_std": 0.0,
        "environments/b/reward": -3.0,
        "environments/b/accuracy": 0.0,
    }
    assert found["reward"] == pytest.approx(-0.5)
    assert found["rewards/a/p/mean"] == 0.75
    assert not any("environments/" in name for name in round_metrics(Rollouts(rollouts), Rewards(rewards, {})))


def test_what_judges_were_asked_is_added_up_and_read_back():
    rewards = [reward("x", n, total, parts={}) for n, total in enumerate((1.0, None, 1.0))]
    asked = [
        Judging(calls=2, retries=1, prompt_tokens=300, completion_tokens=20, seconds=1.5),
        Judging(calls=1, failed=1, seconds=4.0),  # a score that failed was asked for as well
        Judging(cached=3),
    ]
    rows = tuple(dataclasses.replace(each, judging=judging) for each, judging in zip(rewards, asked, strict=True))
    rollouts = Rollouts(tuple(make("x", n, 3) for n in range(3)))
    metrics = round_metrics(rollouts, Rewards(rows, {}))
    assert {name: value for name, value in metrics.items() if name.startswith("judge/")} == {
        "judge/calls": 3.0,
        "judge/retries": 1.0,
        "judge/failed": 1.0,
        "judge/cached": 3.0,
        "judge/prompt_tokens": 300.0,
        "judge/completion_tokens": 20.0,
        "judge/untold": 0.0,
        "judge/seconds": 5.5,
    }
    assert judging_in(metrics) == add_judging(asked)
    assert judging_in({"reward": 1.0}) is None
