"""Computes the metrics of a round from its stored rollouts and rewards alone, under TRL's names.

So a curve can be recomputed from the artifacts. A metric without data is left out and never NaN.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean, stdev

import numpy as np

from rlft.evaluation.statistics import varies
from rlft.evaluation.variety import answer_counts
from rlft.types import Reward, Rewards, Rollout, Rollouts, add_judging

ENVIRONMENTS = "environments/"
"""How the metrics of one of several environments begin."""
_RUN, _PRIME = 4, np.uint64(0x9E3779B97F4A7C15)


def round_metrics(rollouts: Rollouts, rewards: Rewards) -> dict[str, float]:
    """Return all metrics that follow from what was sampled and scored, by name.

    Rollouts that failed count in `rewards/errored` alone; those whose score failed also count in lengths and turns.
    Raises ValueError if rewards belong to other rollouts.
    """
    pairs = pair(rollouts, rewards)
    sampled = [rollout for rollout, _ in pairs if rollout.error is None]
    answered = [(rollout, reward) for rollout, reward in pairs if rollout.error is None and reward.total is not None]
    scored = [reward for _, reward in answered]
    clipped = [reward for rollout, reward in pairs if rollout.truncated and reward.total is not None]
    return {
        **_reward_metrics(scored),
        **_part_metrics(scored),
        **_step_metrics(scored),
        **_length_metrics(sampled),
        **_answer_metrics([each for each in answered if len(each[0].token_ids)]),
        **({"completions/clipped_accuracy": fmean(float(each.solved) for each in clipped)} if clipped else {}),
        **_turn_metrics(sampled),
        **_sampling(rollouts),
        **rollouts.metrics,
        "rewards/errored": float(len(pairs) - len(scored)),
        **_judge_metrics(rewards),
        **_by_environment(rewards, scored),
    }


def pair(rollouts: Rollouts, rewards: Rewards) -> list[tuple]:
    """Return (rollout, reward) pairs in stored order. Raises ValueError if rewards belong to other rollouts."""
    ids, scored = [r.rollout_id for r in rollouts], [r.rollout_id for r in rewards]
    if ids != scored:
        wrong = next(
            (i for i, (a, b) in enumerate(zip(ids, scored, strict=False)) if a != b), min(len(ids), len(scored))
        )
        raise ValueError(
            f"{len(ids)} rollouts and {len(scored)} rewards do not belong together (first difference at row {wrong}); "
            "score these rollouts again"
        )
    return list(zip(rollouts.rows, rewards.rows, strict=True))


def _judge_metrics(rewards: Rewards) -> dict[str, float]:
    """Return `judge/calls` and all else that judges were asked and took, for scores that failed, too."""
    asked = add_judging(reward.judging for reward in rewards)
    return {} if asked is None else asked.metrics()


def _by_environment(rewards: Rewards, scored: Sequence[Reward]) -> dict[str, float]:
    """Return `environments/{name}/{metric}` of each of several environments, for the metrics of rewards."""
    found: dict[str, float] = {}
    for name in rewards.members:
        mine = [reward for reward in scored if rewards.member_of(reward) == name]
        found |= {f"{ENVIRONMENTS}{name}/{metric}": value for metric, value in _reward_metrics(mine).items()}
    return found


def sampled_tokens(rollouts: Iterable[Rollout]) -> int:
    """Return how many tokens the policy has sampled in these rollouts."""
    return sum(int(rollout.loss_mask.sum()) for rollout in rollouts)


def _sampling(rollouts: Rollouts) -> dict[str, float]:
    """Return how many tokens were sampled, and how many per second of wall time, tools and environment included."""
    sampled = sampled_tokens(rollouts)
    if not sampled:
        return {}
    speed = {"perf/tokens_per_second": sampled / rollouts.seconds} if rollouts.seconds > 0 else {}
    return {"completions/sampled_tokens": float(sampled), **speed}


def _reward_metrics(scored: Sequence[Reward]) -> dict[str, float]:
    """Return `reward`, `accuracy` (share solved), and how much the rewards differ within groups.

    `reward_std` is the mean over groups of their unbiased standard deviation (divided by n - 1), as TRL logs it; it is
    not the deviation over all rollouts. Groups with one score have none and are left out of it and of
    `frac_reward_zero_std`.
    """
    groups: dict[str, list[float]] = defaultdict(list)
    for reward in scored:
        if reward.total is not None:
            groups[reward.task_id].append(reward.total)
    totals = [total for group in groups.values() for total in group]
    comparable = [group for group in groups.values() if len(group) > 1]
    metrics = {}
    if totals:
        metrics["reward"] = fmean(totals)
        metrics["accuracy"] = fmean(float(reward.solved) for reward in scored)
    if comparable:
        metrics["reward_std"] = fmean(stdev(group) for group in comparable)
        metrics["frac_reward_zero_std"] = fmean(float(not varies(group)) for group in comparable)
    return metrics


def _part_metrics(scored: Sequence[Reward]) -> dict[str, float]:
    """Return `rewards/{part}/mean` and `/std` (unbiased) over the rollouts that have the part, before its weight."""
    parts: dict[str, list[float]] = defaultdict(list)
    for reward in scored:
        for part, score in reward.parts.items():
            if score is not None:
                parts[part].append(score)
    metrics = {f"rewards/{part}/mean": fmean(scores) for part, scores in parts.items()}
    return metrics | {f"rewards/{part}/std": stdev(scores) for part, scores in parts.items() if len(scores) > 1}


def _step_metrics(scored: Sequence[Reward]) -> dict[str, float]:
    """Return `step_rewards/{part}/mean` and `/std` (unbiased) over the turns to which the part applies."""
    steps: dict[str, list[float]] = defaultdict(list)
    for reward in scored:
        for part, scores in reward.steps.items():
            steps[part] += [score for score in scores if score is not None]
    metrics = {f"step_rewards/{part}/mean": fmean(scores) for part, scores in steps.items() if scores}
    return metrics | {f"step_rewards/{part}/std": stdev(scores) for part, scores in steps.items() if len(scores) > 1}


def _length_metrics(sampled: Sequence[Rollout]) -> dict[str, float]:
    """Return metrics of lengths, in tokens after the prompt, tool results included; `clipped` means truncated.

    `duplicate_ratio` is the share of completions with the same tokens as an earlier attempt at the same task, and
    `repetition_ratio` the mean share of the runs of four sampled tokens that the same completion has said before
    (seq-rep-4 of Welleck et al. 2020, arXiv:1908.04319), over completions that have such a run.
    """
    known = [rollout for rollout in sampled if len(rollout.token_ids)]  # a model behind an address tells no tokens
    if not known:
        return {}
    lengths = [rollout.completion_length for rollout in known]
    metrics = {
        "completions/mean_length": fmean(lengths),
        "completions/max_length": float(max(lengths)),
        "completions/clipped_ratio": fmean(float(rollout.truncated) for rollout in known),
        "completions/duplicate_ratio": (len(known) - len(set(map(_said, known)))) / len(known),
    }
    if ended := [rollout.completion_length for rollout in known if not rollout.truncated]:
        metrics["completions/mean_terminated_length"] = fmean(ended)
    if repeated := [share for rollout in known if (share := _repetition(rollout)) is not None]:
        metrics["completions/repetition_ratio"] = fmean(repeated)
    return metrics


def _repetition(rollout: Rollout) -> float | None:
    """Return the share of runs of `_RUN` sampled tokens that are repeats; `None` for a completion without a run."""
    tokens = rollout.token_ids[rollout.loss_mask].astype(np.uint64)
    count = len(tokens) - _RUN + 1
    if count < 1:
        return None
    runs = np.zeros(count, dtype=np.uint64)
    for place in range(_RUN):  # a polynomial modulo 2^64: two runs share a number by chance in 1 of 10^19
        runs = runs * _PRIME + tokens[place : place + count]
    return 1 - len(np.unique(runs)) / count


def _answer_metrics(scored: Sequence[tuple[Rollout, Reward]]) -> dict[str, float]:
    """Return shares of the scored attempts: of the most frequent answer, whatever the task, and of no answer.

    The second counts attempts that have ended by themselves, and in which `final_answer` found nothing. And of those
    that repeat an earlier attempt at the same task the share that earned another reward than it.
    """
    if not scored:
        return {}
    unanswered = sum(reward.answer is None and not rollout.truncated for rollout, reward in scored)
    return {
        "completions/same_answer_ratio": max(answer_counts(scored).values()) / len(scored),
        "completions/unanswered_ratio": unanswered / len(scored),
        **_contradictions(scored),
    }


def _contradictions(scored: Sequence[tuple[Rollout, Reward]]) -> dict[str, float]:
    earned: dict[tuple[str, bytes], float] = {}
    differ = 0
    for rollout, reward in scored:
        if reward.total is not None:
            differ += varies([earned.setdefault(_said(rollout), reward.total), reward.total])
    repeats = len(scored) - len(earned)
    return {"rewards/contradiction_ratio": differ / repeats} if repeats else {}


def _said(rollout: Rollout) -> tuple[str, bytes]:
    return rollout.task_id, rollout.token_ids[rollout.prompt_length :].tobytes()


def _turn_metrics(sampled: Sequence[Rollout]) -> dict[str, float]:
    """Return tool calls per rollout, the share of calls that failed, and turns per rollout."""
    if not sampled:
        return {}
    calls = sum(rollout.tool_calls for rollout in sampled)
    metrics = {
        "tools/call_frequency": calls / len(sampled),
        "num_turns/mean": fmean(rollout.turns for rollout in sampled),
    }
    if calls:
        metrics["tools/failure_frequency"] = sum(rollout.tool_errors for rollout in sampled) / calls
    return metrics
