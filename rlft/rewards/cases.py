"""The cases of a specification: attempts whose total must lie in a range, which are an expert's tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.several import specification_of
from rlft.environments.workers.threads import run_one
from rlft.messages import as_messages
from rlft.rewards.rubric import TOLERANCE, bounded_total, check_parts
from rlft.rewards.specification.model import Case
from rlft.types import Message, Task, Trajectory


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What a case came to: its place in the specification from 1, its total, and what is wrong, empty if nothing is.

    `problem` is `None` where the case was not run, as its task is not among those that were given.
    """

    number: int
    case: Case
    total: float | None
    problem: str | None

    @property
    def failed(self) -> bool:
        """Whether the total is not in the range of the case, or there is none."""
        return bool(self.problem)

    def __str__(self) -> str:
        if self.problem is None:
            return f"case {self.number} was not run: its task {self.case.task} is not among the tasks"
        return (
            f"case {self.number} {self.problem} ({self.case.reason})" if self.problem else f"case {self.number} holds"
        )


def run_cases(
    environment: BaseEnv,
    tasks: Sequence[Task] = (),
    weights: Mapping[str, float] | None = None,
    *,
    timeout_seconds: float,
) -> list[CaseResult]:
    """Score the cases of an environment's specification; none for an environment without one.

    Cases that name a task are run with the one of `tasks` that has the id. `weights` override those of the criteria,
    as `reward.weights` does. A case has no total after `timeout_seconds`, as an attempt has none.
    """
    specification = specification_of(environment)
    by_id, cases = {task.id: task for task in tasks}, [] if specification is None else specification.cases
    given = {**environment.reward_weights(), **(weights or {})} if cases else {}
    return [
        _run(environment, number, case, by_id, given, timeout_seconds) for number, case in enumerate(cases, start=1)
    ]


def trajectory(attempt: str | Sequence[object], task: Task) -> Trajectory:
    """Return a text, or messages in any form, as an attempt at a task. Raises ValueError for what is no message."""
    if isinstance(attempt, str):
        return Trajectory([Message(role="assistant", content=attempt)], task=task)
    return Trajectory(as_messages(attempt), task=task)


def inline_task(case: Case) -> Task:
    """Return the task that a case describes itself, by its row."""
    item = dict(case.item or {})
    prompt = (Message(role="user", content=str(item.get("prompt", ""))),)
    return Task("case", "", prompt, item.get("answer"), item, "train", "case")


def _run(
    environment: BaseEnv,
    number: int,
    case: Case,
    tasks: Mapping[str, Task],
    weights: Mapping[str, float],
    seconds: float,
) -> CaseResult:
    if case.task is not None and case.task not in tasks:
        return CaseResult(number, case, None, None)
    task = tasks[case.task] if case.task is not None else inline_task(case)
    try:
        score = partial(environment.compute_reward, trajectory(case.attempt, task), task.answer)
        parts = check_parts(run_one(score, environment, seconds=seconds))
        total = bounded_total(parts, weights, environment.reward_maxima(), environment.reward_minima())
    except Exception as error:  # whatever a grader raises is the case's problem
        return CaseResult(number, case, None, f"has no total: {error}")
    low = case.at_least is None or total >= case.at_least - TOLERANCE
    high = case.at_most is None or total <= case.at_most + TOLERANCE
    return CaseResult(number, case, total, "" if low and high else f"earns {total:g}, not {_range(case)}")


def _range(case: Case) -> str:
    low = None if case.at_least is None else f"at least {case.at_least:g}"
    high = None if case.at_most is None else f"at most {case.at_most:g}"
    return " and ".join(filter(None, (low, high)))
