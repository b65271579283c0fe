"""Scores stored rollouts by the environment's parts, weighted and checked. A rollout without a score is never a 0."""

from __future__ import annotations

import logging
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import TypeVar

from rlft.config import RewardConfig
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.several import Several, places_of, specification_of
from rlft.errors import EnvironmentSetupError, JudgeGoneError, RewardError, TaskError
from rlft.progress import Meter, Progress, silent
from rlft.rewards.rubric import (
    UNNAMED,
    Rubric,
    check_numbers,
    check_weighed,
    make_reward,
    maximum_of,
    minimum_of,
    weighed_names,
    weight_of,
)
from rlft.rewards.scores import Scores
from rlft.rewards.specification.grader import charge
from rlft.types import Reward, Rewards, Rollout, Rollouts, Task, add_judging

Ends = tuple[float, float]  # the lowest and the highest score


def score_ranges(parts: Iterable[str], rubric: Rubric) -> dict[str, Ends]:
    """Return {`rewards/<part>`: (lowest, highest)} of parts that declare a minimum, and `reward` if all of them do.

    A part of weight 0, a metric, says nothing of the total.
    """
    known = {
        name: (minimum, maximum_of(name, rubric.maxima))
        for name in parts
        if (minimum := minimum_of(name, rubric.minima)) is not None
    }
    ranges = {f"rewards/{name}": ends for name, ends in known.items()}
    weighed = {name: weight for name in parts if (weight := weight_of(name, rubric.weights))}
    if weighed and weighed.keys() <= known.keys():
        ranges["reward"] = total_range({name: (weight, known[name]) for name, weight in weighed.items()})
    return ranges


def total_range(parts: dict[str, tuple[float, Ends]]) -> Ends:
    """Return the lowest and the highest total of {part: (weight, (minimum, maximum))}, as `rubric.combine` adds up.

    A paid part counts for those that do not apply, so the worst of them can count for all: the lowest total has all
    that they are worth times the lowest minimum in relation to its maximum. Penalties and parts whose maximum is 0 add
    to that; they may not apply, which counts as 0. The range holds every total; it may be wider than what occurs where
    all parts always apply and their minima differ.
    """
    worth = {name: weight * high for name, (weight, (_, high)) in parts.items() if weight > 0 and high > 0}
    whole = math.fsum(worth.values())
    worst = min((parts[name][1][0] / parts[name][1][1] for name in worth), default=0.0)
    others = [
        sorted((weight * low, weight * high)) for name, (weight, (low, high)) in parts.items() if name not in worth
    ]
    return (
        whole * worst + math.fsum(min(0.0, low) for low, _ in others),
        whole + math.fsum(max(0.0, high) for _, high in others),
    )


logger = logging.getLogger(__name__)


def score_rollouts(
    rollouts: Rollouts,
    tasks: Mapping[str, Task],
    environment: BaseEnv,
    settings: RewardConfig,
    *,
    progress: Progress = silent,
    peers: Mapping[str, Sequence[Rollout]] | None = None,
) -> Rewards:
    """Score every rollout with the environment's `compute_reward`, and return the rewards in the order of the rollouts.

    `tasks` maps task ids to tasks. The `weights` of the settings override the environment's own (a part that neither
    names has the weight of `*`, or 1), and their `concurrency` rollouts are scored side by side: an `async def` in the
    environment's event loop, a plain `def` in threads of its own; `None` means `ASYNC_CONCURRENCY` of the former, and
    one plain `def` after the other. The rewards are the same whatever it is. `peers` are the groups that a reward sees
    which compares attempts (`groups_of`). Of several environments each scores the attempts at its own tasks, by its own
    settings, and each part is named `MEMBER/part`.

    A reward that raises, takes too long, returns anything but finite numbers or puts a part above its maximum or below
    its minimum leaves `total=None` and an `error` that says where and why, and so does a rollout that failed itself.

    Raises `TaskError` for a rollout of an unknown task, `ConfigError` for a weight whose part no rollout has,
    `EnvironmentSetupError` for weights, maxima or minima of the environment that are none, `RewardError` when two
    attempts name different parts, so that their totals cannot be compared, `JudgeGoneError` when a judge is not asked
    any more, and `RewardHangs` (an `RlftError`) when none of the first scores returns.
    """
    _check_known(rollouts, tasks)
    if isinstance(environment, Several):
        return _of_members(rollouts, tasks, environment, settings, progress)
    started = time.perf_counter()
    rubric = _rubric(environment, settings)
    steps = {**_declared(environment, "step_weights", "weight", "{'correct': 1.0}"), **settings.weights}
    peers = groups_of(rollouts, environment) if peers is None else peers
    scores = Scores(environment, tasks, settings, peers=peers)
    scored = scores.of(rollouts.rows, Meter(progress, len(rollouts), "scores"))
    rows = [make_reward(rollout, each, rubric, seconds) for rollout, each, seconds in scored]
    known, stepwise = {name for row in rows for name in row.parts}, {name for row in rows for name in row.steps}
    charge(add_judging(row.judging for row in rows))
    _check_names(known, stepwise, settings.weights)
    _check_comparable(rows, rubric.weights)
    _tell_errors(rows)
    names = sorted(known | (set(rubric.weights) - {UNNAMED} - stepwise))
    return Rewards(
        rows=tuple(rows),
        weights={name: float(weight_of(name, rubric.weights)) for name in names},
        seconds=time.perf_counter() - started,
        ranges=score_ranges(sorted(known), rubric),
        step_weights={name: float(weight_of(name, steps)) for name in sorted(stepwise)},
    )


def compares(environment: BaseEnv) -> bool:
    """Return whether an environment's reward compares the attempts at a task with each other."""
    specification = specification_of(environment)
    return specification is not None and specification.compares


def groups_of(rollouts: Rollouts, environment: BaseEnv) -> dict[str, list[Rollout]]:
    """Return {rollout id: all rollouts of its task that did not fail themselves}; nothing if none are compared."""
    if not compares(environment):
        return {}
    groups: dict[str, list[Rollout]] = defaultdict(list)
    for rollout in rollouts:
        if rollout.error is None:
            groups[rollout.task_id].append(rollout)
    return {rollout.rollout_id: groups[rollout.task_id] for rollout in rollouts if rollout.error is None}


def _check_known(rollouts: Rollouts, tasks: Mapping[str, Task]) -> None:
    """Raise TaskError for a rollout of an unknown task."""
    for rollout in rollouts:
        if rollout.task_id not in tasks:
            raise TaskError(
                f"rollout {rollout.rollout_id} attempts task {rollout.task_id!r}, which is not among the tasks",
                where="score_rollouts",
                fix="score rollouts with the task set they were sampled from",
            )


def _check_names(known: Set[str], stepwise: Set[str], given: Mapping[str, float]) -> None:
    """Raise EnvironmentSetupError for a part that is scored for the attempt as well as per turn.

    Raises ConfigError for one of the `given` weights whose part no rollout has.
    """
    for name in sorted(known & stepwise):
        raise EnvironmentSetupError(
            f"part {name!r} is scored for the attempt and per turn, so that its weight could mean either",
            where="compute_step_rewards",
            fix="give one of the two another name",
        )
    if known:
        check_weighed(given, sorted(known | stepwise), "no rollout has a part named")


def _rubric(environment: BaseEnv, settings: RewardConfig) -> Rubric:
    """Return how the parts add up; before weights of the config the environment's own give way."""
    own = _declared(environment, "reward_weights", "weight", "{'correct': 1.0, 'form': 0.1}")
    maxima = _declared(environment, "reward_maxima", "maximum", "{'points': 10.0}", least=0)
    minima = _declared(environment, "reward_minima", "minimum", "{'points': -10.0}")
    for name, minimum in minima.items():
        if minimum > (maximum := maximum_of(name, maxima)):
            raise EnvironmentSetupError(
                f"the minimum of part {name!r} is {minimum:g}, above its maximum, {maximum:g}", where="reward_minima"
            )
    return Rubric({**own, **settings.weights}, maxima, settings.full, minima)


def _declared(
    environment: BaseEnv, method: str, what: str, example: str, *, least: float = -math.inf
) -> dict[str, float]:
    try:
        return check_numbers(getattr(environment, method)(), what, least=least)
    except ValueError as error:
        fix = f"return {{part: its {what}}}, such as {example}"
        raise EnvironmentSetupError(str(error), where=method, fix=fix) from error


def _check_comparable(rows: list[Reward], weights: Mapping[str, float]) -> None:
    """Raise RewardError if two scores have different parts with a weight."""
    scored = [row for row in rows if row.total is not None]
    for row in scored:
        odd = sorted(weighed_names(scored[0].parts, weights) ^ weighed_names(row.parts, weights))
        if odd:
            raise RewardError(
                f"one attempt has a part {odd[0]!r} and another has none (tasks {scored[0].task_id} and "
                f"{row.task_id}), so that their totals cannot be compared",
                where="compute_reward",
                fix=f"name {odd[0]!r} in every score: 0 where nothing was earned, None where it does not apply",
            )


def _tell_errors(rows: list[Reward]) -> None:
    """Log each kind of error once, with how many rollouts and tasks it concerns.

    Raises JudgeGoneError if a judge is not asked any more: the attempts that have a score all the same are those that
    it was asked about before, which are no fair sample.
    """
    failed: dict[tuple[str, ...], list[Reward]] = {}
    for row in rows:
        if row.error:
            failed.setdefault(row.error.kind, []).append(row)
    for found in failed.values():
        tasks = len({row.task_id for row in found})
        on = f"{tasks} task{'s' * (tasks > 1)}"
        logger.warning("%d of %d rollouts, on %s, have no score: %s", len(found), len(rows), on, found[0].error)
    gone = [row.error.why for row in rows if row.error and row.error.origin.raised == JudgeGoneError.__name__]
    if gone:
        raise JudgeGoneError(
            f"{len(gone)} of {len(rows)} attempts have no score: {gone[0]}",
            where="reward.spec: judge",
            fix="start it again; what it has said is kept, and `rlft resume` goes on with a run",
        )


Value = TypeVar("Value")
_PARTS = "rewards/"  # how the range of a part is named


def _of_members(
    rollouts: Rollouts, tasks: Mapping[str, Task], environment: Several, settings: RewardConfig, progress: Progress
) -> Rewards:
    """Return the rewards of several environments, each of which scores the attempts at its own tasks."""
    places = places_of(environment, [tasks[rollout.task_id] for rollout in rollouts])
    found = {
        name: score_rollouts(
            replace(rollouts, rows=tuple(rollouts.rows[place] for place in mine)),
            tasks,
            environment.members[name],
            settings.of_member(name),
            progress=progress,
        )
        for name, mine in places.items()
    }
    return _joined(found, places, tuple(environment.members))


def _joined(found: Mapping[str, Rewards], places: Mapping[str, Sequence[int]], members: tuple[str, ...]) -> Rewards:
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
        step_weights=steps,
        members=members,
    )


def _named(member: str, parts: Mapping[str, Value]) -> dict[str, Value]:
    return {f"{member}/{part}": value for part, value in parts.items()}
