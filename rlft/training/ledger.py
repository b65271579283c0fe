"""Decides the fate of every sampled rollout before training: used, filtered for a reason, or errored at a place."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from rlft.config.training import Baseline, Scale
from rlft.outcome import NO_SCORE, Fate
from rlft.training.advantage import (
    cannot_be_told_apart,
    count_turns,
    group_advantages,
    spread,
    step_scores,
    turn_advantages,
)
from rlft.training.batching import Pair
from rlft.types import Reward, Rewards, Rollout, Rollouts

NO_VARIANCE = "no_variance"
NOT_CHOSEN = Fate("filtered", "not_chosen")
KL_ONLY = Fate("trained", "kl_only")  # its group has no advantages, and is trained on for the KL to the reference alone


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """Holds the groups of rollouts that are trained on, with their advantages, and the fates of the others.

    `groups` has one list of (rollout, advantage) per task; those that are in it for their KL alone have an advantage of
    0 and the fate `trained:kl_only`. Where turns have scores, a rollout has an advantage for each of its tokens.
    `fates` maps rollout ids to fates; an id that is not in it is plainly `trained`. Rollouts that were scored and left
    out have a loss of 0 and count in its means all the same, as in TRL: `silent_rollouts` is their number, and
    `silent_tokens` that of their sampled tokens (without those of truncated rollouts if these are masked).
    """

    groups: list[list[Pair]]
    fates: dict[str, Fate]
    silent_rollouts: int = 0
    silent_tokens: int = 0


def plan_training(
    rollouts: Rollouts,
    rewards: Rewards,
    *,
    scale: Scale,
    mask_truncated_completions: bool,
    baseline: Baseline = "group_mean",
    with_kl: bool = False,
    replaced: bool = False,
) -> TrainingPlan:
    """Sort rollouts into groups with advantages and into fates.

    A group without variance has no advantage to train on. It is left out, unless the loss has a KL to the reference
    (`with_kl`), which holds the policy on solved tasks too: if they were left out, their tokens would count in the mean
    without adding to it, and so weaken the KL of the others.
    Where such groups were `replaced` by others (dynamic sampling), they are no part of the batch: they have no KL, and
    count neither in the means of the loss nor in the standard deviation of a batch. That changes the scale of the loss
    and not its direction, as what they would add is exactly 0.
    Errored rollouts leave their group before its mean is taken; truncated ones, when they are masked, after it, as
    their reward is real. The standard deviation of a `batch` is that of all its scored rollouts, as in TRL, of several
    environments that of each one's own. Scores
    of turns have advantages of their own, which are added to that of the attempt (`rlft.training.advantage`).

    A rollout whose turns have scores is errored if its tokens were sampled in another number of turns.

    Raises ValueError if rollouts and rewards are not about the same attempts, or if an id comes twice.
    """
    _check_ids(rollouts, rewards)
    fates: dict[str, Fate] = {}
    members: dict[str, list[tuple[Rollout, Reward]]] = defaultdict(list)
    for rollout, reward in zip(rollouts, rewards, strict=True):
        if (place := failed_at(rollout, reward, rewards)) is not None:
            fates[rollout.rollout_id] = Fate("errored", place)
        else:
            members[rollout.task_id].append((rollout, reward))
    for task, group in list(members.items()):
        if why := _nothing_to_compare(group, rewards):
            gone = replaced and why == NO_VARIANCE
            kept = with_kl and not gone
            fates.update({rollout.rollout_id: KL_ONLY if kept else Fate("filtered", why) for rollout, _ in group})
            if gone:
                del members[task]
    scored = [rollout for group in members.values() for rollout, _ in group]
    if mask_truncated_completions:
        cut = [rollout.rollout_id for rollout in scored if rollout.truncated]
        fates.update({key: Fate("filtered", "truncated") for key in cut if _is_trained(fates, key)})
    groups = _with_advantages(list(members.values()), rewards, scale, baseline)
    groups = [[pair for pair in group if _is_trained(fates, pair[0].rollout_id)] for group in groups]
    silent = [rollout for rollout in scored if not _is_trained(fates, rollout.rollout_id)]
    tokens = sum(int(r.loss_mask.sum()) for r in silent if not (mask_truncated_completions and r.truncated))
    return TrainingPlan([group for group in groups if group], fates, len(silent), tokens)


def plan_of_chosen(rollouts: Rollouts, rewards: Rewards, chosen: Mapping[str, float]) -> TrainingPlan:
    """Return the chosen rollouts by task, those with the highest advantage first, and the fates of the others.

    `chosen` maps rollout ids to advantages. What failed is `errored`, chosen or not, and the others are
    `filtered:not_chosen`. Raises ValueError as `plan_training` does.
    """
    _check_ids(rollouts, rewards)
    groups: dict[str, list[Pair]] = defaultdict(list)
    fates: dict[str, Fate] = {}
    for rollout, reward in zip(rollouts, rewards, strict=True):
        if (place := failed_at(rollout, reward, rewards)) is not None:
            fates[rollout.rollout_id] = Fate("errored", place)
        elif rollout.rollout_id in chosen:
            groups[rollout.task_id].append((rollout, chosen[rollout.rollout_id]))
        else:
            fates[rollout.rollout_id] = NOT_CHOSEN
    return TrainingPlan([sorted(group, key=lambda pair: -pair[1]) for group in groups.values()], fates)


def _check_ids(rollouts: Rollouts, rewards: Rewards) -> None:
    if [r.rollout_id for r in rollouts] != [r.rollout_id for r in rewards]:
        raise ValueError("rewards do not belong to these rollouts: their ids differ")
    if len({r.rollout_id for r in rollouts}) < len(rollouts):
        raise ValueError("two rollouts have the same id: their fates could not be told apart")


def failed_at(rollout: Rollout, reward: Reward, rewards: Rewards) -> str | None:
    """Return where an attempt failed, `None` if it can be trained on."""
    if rollout.error is not None:
        return rollout.error.where or "rollout"
    if reward.total is None or not math.isfinite(reward.total):
        return NO_SCORE
    steps = step_scores(rewards, reward)
    return "compute_step_rewards" if steps and len(steps) != count_turns(rollout) else None


def _nothing_to_compare(group: Sequence[tuple[Rollout, Reward]], rewards: Rewards) -> str | None:
    """Return why a group has no advantages, `None` if it has some."""
    if len(group) < 2:
        return "alone_in_group"
    return NO_VARIANCE if cannot_be_told_apart(rewards, [reward for _, reward in group]) else None


def _is_trained(fates: Mapping[str, Fate], rollout_id: str) -> bool:
    return fates.get(rollout_id, KL_ONLY) == KL_ONLY


def _with_advantages(
    groups: list[list[tuple[Rollout, Reward]]], rewards: Rewards, scale: Scale, baseline: Baseline
) -> list[list[Pair]]:
    """Return the groups with advantages, computed in float64 for all groups at once, as `batch` scaling needs it.

    Those of several environments are computed for one after the other: the scores of one say nothing of another's.
    """
    places: dict[str, list[int]] = defaultdict(list)
    for place, group in enumerate(groups):
        places[rewards.member_of(group[0][1])].append(place)
    found: dict[int, list[Pair]] = {}
    for mine in places.values():
        found |= zip(mine, _of_batch([groups[place] for place in mine], rewards, scale, baseline), strict=True)
    return [found[place] for place in range(len(groups))]


def _of_batch(
    groups: list[list[tuple[Rollout, Reward]]], rewards: Rewards, scale: Scale, baseline: Baseline
) -> list[list[Pair]]:
    """Return the groups of one environment with their advantages."""
    found = iter(_of_attempts(groups, scale, baseline))
    turns = turn_advantages([[step_scores(rewards, reward) for _, reward in group] for group in groups], scale)
    return [
        [
            (rollout, spread(rollout, next(found), steps) if any(steps) else next(found))
            for (rollout, _), steps in zip(group, of_group, strict=True)
        ]
        for group, of_group in zip(groups, turns, strict=True)
    ]


def _of_attempts(groups: list[list[tuple[Rollout, Reward]]], scale: Scale, baseline: Baseline) -> list[float]:
    """Return the advantage of each attempt as a whole."""
    totals = torch.tensor([reward.total for group in groups for _, reward in group], dtype=torch.float64)
    index = torch.cat([torch.full((len(group),), number) for number, group in enumerate(groups)])
    return group_advantages(totals, index, scale, baseline).tolist()
