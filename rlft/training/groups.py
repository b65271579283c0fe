"""Samples the groups of a round, and replaces those without variance: DAPO's dynamic sampling (arXiv:2503.14476)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from rlft.config.section import Section
from rlft.models.flops import ENCODED, OF_SEQUENCES, ROLLOUT_FLOPS
from rlft.tasks.curriculum import Draw
from rlft.training.advantage import cannot_be_told_apart
from rlft.types import Reward, Rewards, Rollouts, Task

RESAMPLING = "dynamic_sampling/"  # begins the names of metrics
Score = Callable[[Rollouts], Rewards]


class Sample(Protocol):
    """Attempts each task as often as a group has attempts; `first_place` tasks of the round came before these."""

    def __call__(self, tasks: Sequence[Task], /, *, first_place: int) -> Rollouts:
        """Return the rollouts in the order of the tasks."""
        ...


class Groups(Section):
    """Says how many attempts a task gets, and how many samplings a round has at most; see `training` in the config."""

    num_generations: int
    max_num_gen_batches: int


@dataclass(frozen=True, slots=True)
class Sampled:
    """All rollouts of a round with their rewards, the thrown away too."""

    rollouts: Rollouts
    rewards: Rewards


def sample_groups(draw: Draw, tasks: Mapping[str, Task], sample: Sample, score: Score, *, batches: int) -> Sampled:
    """Sample and score the tasks of a draw; then, up to `batches` samplings in all, others in place of wasted groups.

    A group is wasted if its attempts cannot be told apart (`cannot_be_told_apart`). One with fewer than two rewards is
    not replaced: what failed there is not the task.
    """
    rounds: list[Sampled] = []
    wasted: list[str] = []
    wanted, reserves, place = [task.task_id for task in draw.tasks], [task.task_id for task in draw.reserves], 0
    while wanted:
        rollouts = sample([tasks[task] for task in wanted], first_place=place)
        rewards = score(rollouts)
        rounds.append(Sampled(rollouts, rewards))
        place += len(wanted)
        useless = without_variance(rewards)
        wasted += useless
        missing = len(useless) if len(rounds) < batches else 0
        wanted, reserves = reserves[:missing], reserves[missing:]
    metrics = draw.metrics() | (_metrics(rounds, draw, place, wasted) if batches > 1 else {})
    return _together(rounds, metrics)


def without_variance(rewards: Rewards) -> list[str]:
    """Return the tasks whose attempts, two or more, were all scored alike, in their order."""
    groups: dict[str, list[Reward]] = defaultdict(list)
    for reward in rewards:
        if reward.total is not None:
            groups[reward.task_id].append(reward)
    return [task for task, group in groups.items() if len(group) > 1 and cannot_be_told_apart(rewards, group)]


def reasons(draw: Draw | None, rewards: Rewards) -> dict[str, str]:
    """Return {task id: why it was drawn} of the tasks that were attempted; empty without a draw.

    Those whose group had no variance are said to be `without variance`.
    """
    if draw is None:
        return {}
    known = {task.task_id: task for task in (*draw.reserves, *draw.tasks)}
    useless = set(without_variance(rewards))
    attempted = dict.fromkeys(reward.task_id for reward in rewards)
    return {task: known[task].reason() + ("; without variance" if task in useless else "") for task in attempted}


def _metrics(rounds: Sequence[Sampled], draw: Draw, sampled: int, wasted: Sequence[str]) -> dict[str, float]:
    gone = set(wasted)
    thrown = [rollout for each in rounds for rollout in each.rollouts if rollout.task_id in gone]
    return {
        f"{RESAMPLING}gen_batches": float(len(rounds)),
        f"{RESAMPLING}resampled_groups": float(sampled - len(draw.tasks)),
        f"{RESAMPLING}thrown_groups": float(len(wasted)),
        f"{RESAMPLING}thrown_rollouts": float(len(thrown)),
        f"{RESAMPLING}thrown_tokens": float(sum(int(rollout.loss_mask.sum()) for rollout in thrown)),
    }


def _together(rounds: Sequence[Sampled], metrics: Mapping[str, float]) -> Sampled:
    rollouts, rewards = [each.rollouts for each in rounds], [each.rewards for each in rounds]
    spent = {
        name: sum(each.metrics[name] for each in rollouts)
        for name in (ROLLOUT_FLOPS, ENCODED, OF_SEQUENCES)
        if name in rollouts[0].metrics
    }
    return Sampled(
        Rollouts(
            tuple(row for each in rollouts for row in each),
            sum(each.seconds for each in rollouts),
            {**rollouts[-1].metrics, **spent, **metrics},
        ),
        replace(
            rewards[0],
            rows=tuple(row for each in rewards for row in each),
            seconds=sum(each.seconds for each in rewards),
            ranges={name: value for each in rewards for name, value in each.ranges.items()},
        ),
    )
