"""Asks an environment for the golds of tasks, and for the attacks that it names itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from rlft.audit.findings import Findings
from rlft.audit.report import GOLD, GOLD_KIND, Problem
from rlft.contract.base import BaseEnv
from rlft.contract.faults import defined_at, failure_of
from rlft.contract.several import Several
from rlft.harness.scripted import Script, as_script
from rlft.outcome import Failure
from rlft.types import Task
from rlft.workers.bounded import MAX_LATE_IN_A_ROW, Late, run_bounded
from rlft.workers.threads import in_thread

ATTACKS = "attacks"
"""The method by which an environment names attacks."""


def ask_golds(tasks: Sequence[Task], environment: BaseEnv, findings: Findings, *, seconds: float) -> dict[str, Script]:
    """Return {task id: gold completion} for the tasks that have one; an error of `gold_completion` is a finding.

    So is a gold that takes longer than so many seconds. After `MAX_LATE_IN_A_ROW` of these no more tasks are asked.
    """

    def gold(task: Task) -> Script | None:
        said = environment.gold_completion(task)
        return None if said is None else as_script(said)

    found = _ask(GOLD, gold, tasks, environment, findings, seconds)
    return {task_id: script for task_id, script in found.items() if script is not None}


def ask_attacks(
    tasks: Sequence[Task], environment: BaseEnv, taken: Collection[str], findings: Findings, *, seconds: float
) -> dict[str, Mapping[str, Script]]:
    """Return {task id: {name: attempt}} of what `attacks` names; errors, names that are `taken`, and late answers are
    findings, as for `ask_golds`."""

    def own(task: Task) -> Mapping[str, Script]:
        said: Any = environment.attacks(task)
        if both := sorted({*taken, GOLD_KIND} & set(said)):
            raise ValueError(f"{both[0]!r} is the name of another kind of attempt; give the attack its own")
        return {str(name): as_script(attempt) for name, attempt in said.items()}

    if type(environment).attacks is BaseEnv.attacks:
        return {task.id: {} for task in tasks}
    return _ask(ATTACKS, own, tasks, environment, findings, seconds)


def _ask(
    where: str,
    method: Callable[[Task], Any],
    tasks: Sequence[Task],
    environment: BaseEnv,
    findings: Findings,
    seconds: float,
) -> dict[str, Any]:
    """Return what a method of the environment says to each task; its errors fail the audit, one sentence a kind."""
    found: dict[str, Any] = {}
    errors: dict[tuple[str, ...], list[str]] = {}  # by kind of failure, what was said
    [(_, answers)] = run_bounded([partial(_answers, where, method, tasks, seconds)], None)
    for task, said in zip(tasks, answers, strict=False):
        if isinstance(said, Late):
            said = _hung(where, environment, task, said)
            findings.hangs = True
        if isinstance(said, Failure):
            errors.setdefault(said.kind, []).append(f"{task.id}: {said.why}")
        else:
            found[task.id] = said
    unasked = f", and {len(tasks) - len(answers)} were not asked" if len(answers) < len(tasks) else ""
    for said in errors.values():
        what = f"{where} failed on {len(said)} of {len(tasks)} tasks{unasked}, for example {said[0]}"
        findings.fail(Problem(where, what))
    return found


async def _answers(where: str, method: Callable[[Task], Any], tasks: Sequence[Task], seconds: float) -> list[Any]:
    """Return what a method says to each task, a Failure where it raises, and `Late` where it takes too long.

    Each call has a thread of its own, which is left behind if it is late.
    """
    answers, late_in_a_row = list[Any](), 0
    for task in tasks:
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                answers.append(await in_thread(partial(method, task)))
            late_in_a_row = 0
        except Exception as error:
            is_late = limit.expired()
            late_in_a_row = late_in_a_row + 1 if is_late else 0
            answers.append(Late(f"did not return within {seconds:g} s") if is_late else failure_of(where, error, task))
        if late_in_a_row >= MAX_LATE_IN_A_ROW:
            break
    return answers


def _hung(where: str, environment: BaseEnv, task: Task, late: Late) -> Failure:
    """Return that a method has not returned, by its class and line; of several environments it is the task's own."""
    owner = environment.member(task) if isinstance(environment, Several) else environment
    method = getattr(owner, where)
    why = f"{type(owner).__name__}.{where} {late}{defined_at(method)}"
    return Failure(where, f"ScoringTimeout: {why}", raised="ScoringTimeout")
