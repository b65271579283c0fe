"""The attempts of an environment's check, and what is wrong by them: gold and silence, each played and scored twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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
from rlft.rewards.rubric import TOLERANCE
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


_SHORT = 300  # characters of a tool's message
_WAYS_OUT = {
    "setup": "context and setup must work for every task; setup returns a dict or None",
    "state": "keep text, numbers, lists and dicts in the state: it is stored as JSON",
    "respond": "return text, a message, or None to end the conversation",
    "final_answer": "return text or None",
}
_REWARD_WAY_OUT = "return {part: a finite number, or None} for whatever a model says, within the time limit"


def failures(trials: Sequence[Trial]) -> list[Problem]:
    """Return what failed in playing and scoring: one problem for each kind of failure, with how often."""
    found: dict[tuple[str, ...], list[tuple[Failure, Trial]]] = {}
    for trial in trials:
        for error in dict.fromkeys(each.error.origin for each in (*trial.played, *trial.scored) if each.error):
            found.setdefault(error.kind, []).append((error, trial))
    return [_failed(rows[0][0], [trial for _, trial in rows]) for rows in found.values()]


def _failed(failure: Failure, trials: Sequence[Trial]) -> Problem:
    """Return one failure with the way out that it names itself, else with that of its place."""
    fix = failure.fix or _WAYS_OUT.get(failure.where, _REWARD_WAY_OUT)
    return Problem(failure.where, f"{failure.why} ({_on(trials)})", fix)


def unfinished(trials: Sequence[Trial]) -> Iterator[Problem]:
    """Yield a problem about the gold conversations that ended early, and one about those in which a tool failed."""
    cut = [trial for trial in trials if trial.played[0].turns < len(trial.script) and not trial.played[0].error]
    if cut:
        said, whole = cut[0].played[0].turns, len(cut[0].script)
        what = f"{said} of its {whole} messages were said before the conversation was over ({_on(cut)})"
        yield Problem(GOLD, what, "call a tool in every message but the last, or raise max_turns")
    if failed := [trial for trial in trials if trial.played[0].tool_errors]:
        told = [message for message in failed[0].played[0].messages if message.get("failed")]
        where = f"tool {told[0].get('name', '')}" if told else "a tool"
        said = told[0]["content"][:_SHORT] if told else ""
        if failed[0].tool_faults:
            where, said = failed[0].tool_faults[0].where, failed[0].tool_faults[0].why
        what = f"a call of the gold conversation failed: {said} ({_on(failed)})"
        yield Problem(where, what, "mend the tool, or the call in gold_completion")


def changed(trials: Sequence[Trial]) -> Iterator[Problem]:
    """Yield a problem about conversations, and one about scores, that were not the same the second time."""
    other = [trial for trial in trials if _played(trial.played[0]) != _played(trial.played[1])]
    if other:
        one, two = (_played(rollout) for rollout in other[0].played)
        what = "state" if one[0] == two[0] else "messages"
        yield Problem(
            "setup and tools",
            f"the same conversation came to other {what} when it was played again ({_on(other)})",
            "keep what a rollout changes in its state, not on the environment, and draw what is random from the task",
        )
    if scores := [trial for trial in trials if _scored(trial.scored[0]) != _scored(trial.scored[1])]:
        one, two = (_scored(reward) for reward in scores[0].scored)
        what = f"the same rollout was scored {one} and then {two} ({_on(scores)})"
        fix = "let the score follow from the task, the messages and the state alone, and change none of them"
        yield Problem("compute_reward", what, fix)


def paid(trials: Sequence[Trial]) -> Iterator[Problem]:
    """Yield a problem if any of these attempts, which say nothing, earned something."""
    earning = [trial for trial in trials if (trial.scored[0].total or 0.0) > TOLERANCE]
    if earning:
        reward = earning[0].scored[0]
        what = f"an empty answer earns {reward.total:g} from {reward.parts} ({_on(earning)})"
        yield Problem("compute_reward", what, "pay nothing where there is no answer")


def _played(rollout: Rollout) -> tuple[Any, ...]:
    return (rollout.messages, rollout.state, rollout.error)


def _scored(reward: Reward) -> tuple[Any, ...]:
    return (reward.total, reward.parts, reward.answer)


def _on(trials: Sequence[Trial]) -> str:
    more = f", and {len(trials) - 1} more" if len(trials) > 1 else ""
    return f"{trials[0].kind} on task {trials[0].task.id}{more}"
