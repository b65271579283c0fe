"""Chooses attempts of a round for people to read: where a reward goes wrong, it shows among these first.

Attempts of several environments are compared by the share of a full reward that they are paid.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import rankdata

from rlft.types import Reward, Rewards, Rollout, Rollouts


def full_totals(rewards: Rewards) -> dict[str, float]:
    """Return {environment: its highest total}; the name is empty where there is one.

    It is what the environment declares, else the highest total that any of its attempts has got, or 1 where that is no
    more than 0.
    """
    declared = {name: _declared(rewards, name) for name in rewards.members or ("",)}
    return {name: full or _highest(rewards, name) for name, full in declared.items()}


def share_of(reward: Reward, full: dict[str, float], rewards: Rewards) -> float:
    """Return which share of the full reward an attempt is paid; 0 without a score."""
    return (reward.total or 0.0) / full[rewards.member_of(reward)]


def _declared(rewards: Rewards, name: str) -> float | None:
    _, high = rewards.ranges.get(f"reward/{name}" if name else "reward", (0.0, 0.0))
    return high if high > 0 else None


def _highest(rewards: Rewards, name: str) -> float:
    totals = [each.total for each in rewards if each.total is not None and rewards.member_of(each) == name]
    return highest if (highest := max(totals, default=0.0)) > 0 else 1.0


Reason = Literal["highest", "disputed", "random"]


@dataclass(frozen=True, slots=True)
class Chosen:
    """An attempt that people are asked about, with its reward, and why it was chosen."""

    rollout: Rollout
    reward: Reward
    reason: Reason


def choose(rollouts: Rollouts, rewards: Rewards, *, highest: int, disputed: int, random: int) -> list[Chosen]:
    """Return attempts that have a score: the highest-paid, then the most disputed, then random ones, each once.

    Of attempts at one task that say the same one is taken. What is paid counts as a share of the environment's full
    reward, as a run may have several. The choice depends on the rewards and the ids of the
    rollouts alone, so that it is the same whenever it is made.
    """
    scored = {reward.rollout_id: reward for reward in rewards if reward.total is not None}
    by_chance = sorted((each for each in rollouts if each.rollout_id in scored), key=_draw)
    once = {(each.task_id, said_in(each)): each for each in reversed(by_chance)}
    left = sorted(once.values(), key=_draw)
    full = full_totals(rewards)
    shares = {name: share_of(reward, full, rewards) for name, reward in scored.items()}
    disputes = dispute(list(scored.values()), rewards)
    found = list[Chosen]()

    def take(reason: Reason, ranked: Iterable[Rollout], count: int) -> None:
        for rollout in list(ranked)[:count]:
            left.remove(rollout)
            found.append(Chosen(rollout, scored[rollout.rollout_id], reason))

    take("highest", sorted(left, key=lambda each: -shares[each.rollout_id]), highest)
    doubtful = [each for each in left if disputes[each.rollout_id] > 0]
    take("disputed", sorted(doubtful, key=lambda each: -disputes[each.rollout_id]), disputed)
    take("random", left, random)
    return found


def dispute(scored: Sequence[Reward], rewards: Rewards) -> dict[str, float]:
    """Return {rollout id: how far the parts of its reward contradict one another}, from 0 to 1.

    It is the distance between the highest and the lowest rank that its parts have in the round, as shares of the round;
    a penalty counts turned round, and a part that does not vary says nothing. With a single part it is how evenly the
    attempts at its task are divided: 1 where half of them have more than the task's mean, 0 where all have the same.
    Parts of several environments are compared within each.
    """
    by_member = dict[str, list[Reward]]()
    for reward in scored:
        by_member.setdefault(rewards.member_of(reward), []).append(reward)
    return {name: far for mine in by_member.values() for name, far in _dispute(mine, rewards).items()}


def _dispute(scored: Sequence[Reward], rewards: Rewards) -> dict[str, float]:
    parts = sorted({name for reward in scored for name in reward.parts if rewards.weights.get(name, 1.0)})
    ranks = {name: found for name in parts if (found := _ranks(scored, name, rewards.weights.get(name, 1.0)))}
    if len(ranks) < 2:
        return _division(scored)
    found = dict[str, float]()
    for reward in scored:
        own = [ranked[reward.rollout_id] for ranked in ranks.values() if reward.rollout_id in ranked]
        found[reward.rollout_id] = max(own) - min(own) if own else 0.0
    return found


def _ranks(scored: Sequence[Reward], part: str, weight: float) -> dict[str, float]:
    """Return {rollout id: share of the attempts that a part pays less, or the same and by halves}."""
    values = {reward.rollout_id: score for reward in scored if (score := reward.parts.get(part)) is not None}
    numbers = np.asarray(list(values.values()), dtype=np.float64) * np.sign(weight)
    if numbers.size < 2 or numbers.min() == numbers.max():
        return {}
    shares = (rankdata(numbers) - 0.5) / numbers.size
    return dict(zip(values, map(float, shares), strict=True))


def _division(scored: Sequence[Reward]) -> dict[str, float]:
    groups = dict[str, list[float]]()
    for reward in scored:
        groups.setdefault(reward.task_id, []).append(reward.total or 0.0)
    above = {task: float(np.mean(np.asarray(totals) > np.mean(totals))) for task, totals in groups.items()}
    return {reward.rollout_id: 1 - abs(2 * above[reward.task_id] - 1) for reward in scored}


def said_in(rollout: Rollout) -> str:
    """Return what stands after the prompt, all calls included."""
    roles = [message["role"] for message in rollout.messages]
    first = roles.index("assistant") if "assistant" in roles else len(roles)
    return repr(rollout.messages[first:])


def _draw(rollout: Rollout) -> str:
    """Return a number of chance that belongs to the rollout."""
    return hashlib.sha256(rollout.rollout_id.encode(errors="surrogatepass")).hexdigest()
