"""What a full reward is: the share of it that an attempt is paid says as much in one environment as in another."""

from __future__ import annotations

from rlft.types import Reward, Rewards


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
