"""Plays and scores the attempts of an environment's check: gold and silence, each played twice and scored twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rlft.audit.report import GOLD, Problem
from rlft.config import HarnessConfig
from rlft.contract.base import BaseEnv
from rlft.contract.faults import failure_of
from rlft.errors import RlftError
from rlft.harness.scripted import Part, Script, as_script, play_scripts
from rlft.outcome import Failure
from rlft.progress import Progress, silent
from rlft.rewards.scoring import score_rollouts
from rlft.types import Reward, Rollout, Rollouts, Task
from rlft.workers.bounded import MAX_LATE_IN_A_ROW, Late, run_bounded

_GOLD_WAY_OUT = "return text, the assistant's messages in order, or None"


class CannotTry(RlftError):
    """Raised where an environment hangs, so that nothing more can be tried before that is mended."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Holds an attempt at a task, played twice, and the two scores of the first of these rollouts.

    `kind` is `gold` or `silence`. `tool_faults` say what tools raised the first time, and where.
    """

    kind: str
    task: Task
    script: Script
    played: tuple[Rollout, Rollout]
    scored: tuple[Reward, Reward]
    tool_faults: tuple[Failure, ...] = ()


def gold_scripts(
    tasks: Sequence[Task], environment: BaseEnv, timeout_seconds: float
) -> tuple[dict[str, Script], list[Problem]]:
    """Return {task id: gold completion} of the tasks that have one, and what is wrong with the others."""
    golds: dict[str, Script] = {}
    wrong: dict[tuple[str, ...], list[tuple[str, Failure]]] = {}  # by kind of failure, (task id, failure)
    without: list[str] = []
    late_in_a_row = 0
    for place, found in run_bounded(
        [partial(_gold, environment, task) for task in tasks], None, seconds=timeout_seconds
    ):
        task = tasks[place]
        late_in_a_row = late_in_a_row + 1 if isinstance(found, Late) else 0
        if isinstance(found, Late):
            found = Failure(GOLD, f"ScoringTimeout: {found}")
        if isinstance(found, Failure):
            wrong.setdefault(found.kind, []).append((task.id, found))
        elif found is None:
            without.append(task.id)
        else:
            golds[task.id] = found
        if late_in_a_row >= MAX_LATE_IN_A_ROW:
            break
    problems = [_gold_problem([task for task, _ in rows], rows[0][1]) for rows in wrong.values()]
    if without and not golds:
        what = "no task has a gold answer, so nothing shows that the reward can be earned"
        problems.append(Problem(GOLD, what, "give the tasks an answer, or define gold_completion(task)"))
    elif without:
        fix = "give every task an answer, or leave those without one out"
        problems.append(Problem(GOLD, f"returned None ({_tasks(without)})", fix))
    return golds, problems


def _gold_problem(tasks: Sequence[str], failure: Failure) -> Problem:
    fix = "mend this line; it must work for every task" if failure.place else _GOLD_WAY_OUT
    return Problem(GOLD, f"{failure.why} ({_tasks(tasks)})", fix)


def try_scripts(
    scripts: Iterable[tuple[str, Task, Script]],
    environment: BaseEnv,
    harness: HarnessConfig,
    *,
    progress: Progress = silent,
) -> list[Trial]:
    """Play all (kind, task, script) twice, and score the first rollouts twice.

    All are played once before any is played again. Raises CannotTry when the environment hangs, and RlftError as
    `score_rollouts` does.
    """
    wanted = list(scripts)
    faults: dict[str, list[Failure]] = {}
    first, again = (_play(wanted, time, environment, harness, faults, progress) for time in ("first", "again"))
    scored = [_score(first, [task for _, task, _ in wanted], environment, harness, progress) for _ in range(2)]
    return [
        Trial(kind, task, script, played, rewards, tuple(faults.get(played[0].rollout_id, ())))
        for (kind, task, script), played, rewards in zip(
            wanted, zip(first, again, strict=True), zip(*scored, strict=True), strict=True
        )
    ]


def _play(
    wanted: Sequence[tuple[str, Task, Script]],
    time: str,
    environment: BaseEnv,
    harness: HarnessConfig,
    tool_faults: dict[str, list[Failure]],
    progress: Progress,
) -> list[Rollout]:
    """Play all scripts once, and add what tools raised to `tool_faults`. `time` is `first` or `again`."""
    # In a thread that can be left behind: a coroutine that blocks would hold up all others for ever.
    parts = [Part(f"check-{time}/{kind}/{task.id}", task, script) for kind, task, script in wanted]
    seconds = harness.tool_timeout_seconds * (1 + sum(len(script) for _, _, script in wanted))
    play = partial(play_scripts, parts, environment, harness, tool_faults=tool_faults, progress=progress)
    for _, played in run_bounded([partial(_called, play)], None, seconds=seconds):
        if isinstance(played, Late):
            raise CannotTry(
                f"the conversations were not over within {seconds:g} s",
                where="setup, tools or respond",
                fix="await what takes long, or write the method without async: then it runs in a thread of its own",
            )
        return played
    raise AssertionError("one job has one outcome")


def _score(
    rollouts: Sequence[Rollout], tasks: Sequence[Task], environment: BaseEnv, harness: HarnessConfig, progress: Progress
) -> tuple[Reward, ...]:
    return score_rollouts(
        Rollouts(tuple(rollouts)),
        {task.id: task for task in tasks},
        environment,
        weights={},
        full=None,
        timeout_seconds=harness.tool_timeout_seconds,
        progress=progress,
    ).rows


async def _gold(environment: BaseEnv, task: Task) -> Script | Failure | None:
    """Return the gold completion as a script, or the failure of `gold_completion`."""
    try:
        said = environment.gold_completion(task)
        return None if said is None else as_script(said)
    except BaseException as error:
        return failure_of(GOLD, error, task)


async def _called(function: Callable[[], Any]) -> Any:
    return function()


def _tasks(ids: Sequence[str]) -> str:
    return f"on {len(ids)} task{'s' * (len(ids) > 1)}, for example {ids[0]}"
