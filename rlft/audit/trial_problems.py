"""Says what is wrong with an environment by its trials."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rlft.audit.report import GOLD, Problem
from rlft.audit.trials import Trial
from rlft.outcome import Failure
from rlft.rewards.rubric import TOLERANCE
from rlft.types import Reward, Rollout

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
