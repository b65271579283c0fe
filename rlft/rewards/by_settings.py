"""Scores rollouts as the section `reward` of a config says, those of several environments each by its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from rlft.config import RewardConfig
from rlft.contract.base import BaseEnv
from rlft.contract.several import Several, places_of
from rlft.progress import Progress, silent
from rlft.rewards.scoring import check_known, score_rollouts
from rlft.types import Reward, Rewards, Rollouts, Task

Value = TypeVar("Value")
_PARTS = "rewards/"  # how the range of a part is named


def score_by(
    settings: RewardConfig,
    rollouts: Rollouts,
    tasks: Mapping[str, Task],
    environment: BaseEnv,
    *,
    progress: Progress = silent,
) -> Rewards:
    """Score every rollout by `score_rollouts`, and return the rewards in the order of the rollouts.

    Of several environments each scores the attempts at its own tasks, by its own settings, and each part is named
    `MEMBER/part`. Raises as `score_rollouts` does.
    """
    if not isinstance(environment, Several):
        return _score(settings, rollouts, tasks, environment, progress)
    check_known(rollouts, tasks)
    places = places_of(environment, [tasks[rollout.task_id] for rollout in rollouts])
    found = {
        name: _score(
            settings.of_member(name),
            replace(rollouts, rows=tuple(rollouts.rows[place] for place in mine)),
            tasks,
            environment.members[name],
            progress,
        )
        for name, mine in places.items()
    }
    return _joined(found, places, tuple(environment.members), settings)


def _score(
    settings: RewardConfig, rollouts: Rollouts, tasks: Mapping[str, Task], environment: BaseEnv, progress: Progress
) -> Rewards:
    return score_rollouts(
        rollouts,
        tasks,
        environment,
        weights=settings.weights,
        full=settings.full,
        timeout_seconds=settings.timeout_seconds,
        workers=settings.workers(),
        aggregation=settings.aggregation,
        progress=progress,
    )


def _joined(
    found: Mapping[str, Rewards], places: Mapping[str, Sequence[int]], members: tuple[str, ...], settings: RewardConfig
) -> Rewards:
    """Return the rewards of all members in the order of their places.

    A total has a range if it has one in each member; that of a member is `reward/MEMBER`.
    """
    rows = {
        place: replace(row, parts=_named(name, row.parts), steps=_named(name, row.steps))
        for name, rewards in found.items()
        for place, row in zip(places[name], rewards, strict=True)
    }
    weights, steps, ranges = dict[str, float](), dict[str, float](), dict[str, tuple[float, float]]()
    for name, rewards in found.items():
        weights |= _named(name, rewards.weights)
        steps |= _named(name, rewards.step_weights)
        parts = {key.removeprefix(_PARTS): ends for key, ends in rewards.ranges.items() if key.startswith(_PARTS)}
        ranges |= {f"{_PARTS}{part}": ends for part, ends in _named(name, parts).items()}
        ranges |= {f"reward/{name}": rewards.ranges["reward"]} if "reward" in rewards.ranges else {}
    ends = [rewards.ranges.get("reward") for rewards in found.values()]
    known = [each for each in ends if each is not None]
    if known and len(known) == len(ends):
        ranges["reward"] = min(low for low, _ in known), max(high for _, high in known)
    return Rewards(
        rows=tuple[Reward, ...](rows[place] for place in range(len(rows))),
        weights=weights,
        seconds=sum(rewards.seconds for rewards in found.values()),
        ranges=ranges,
        aggregation=settings.aggregation,
        step_weights=steps,
        members=members,
    )


def _named(member: str, parts: Mapping[str, Value]) -> dict[str, Value]:
    return {f"{member}/{part}": value for part, value in parts.items()}
