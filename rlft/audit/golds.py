"""Asks an environment for the golds of tasks, and for the attacks that it names itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from rlft.audit.findings import Findings
from rlft.audit.report import GOLD, GOLD_KIND, Problem
from rlft.contract.base import BaseEnv
from rlft.contract.faults import failure_of
from rlft.harness.scripted import Script, as_script
from rlft.types import Task

_Said = TypeVar("_Said")


def ask_golds(tasks: Sequence[Task], environment: BaseEnv, findings: Findings) -> dict[str, Script]:
    """Return {task id: gold completion} for the tasks that have one; an error of `gold_completion` is a finding."""

    def gold(task: Task) -> Script | None:
        said = environment.gold_completion(task)
        return None if said is None else as_script(said)

    return {task_id: script for task_id, script in _ask(GOLD, gold, tasks, findings).items() if script is not None}


def ask_attacks(
    tasks: Sequence[Task], environment: BaseEnv, taken: Collection[str], findings: Findings
) -> dict[str, Mapping[str, Script]]:
    """Return {task id: {name: attempt}} of what `attacks` names; its errors and names that are `taken` are findings."""

    def own(task: Task) -> Mapping[str, Script]:
        said: Any = environment.attacks(task)
        if both := sorted({*taken, GOLD_KIND} & set(said)):
            raise ValueError(f"{both[0]!r} is the name of another kind of attempt; give the attack its own")
        return {str(name): as_script(attempt) for name, attempt in said.items()}

    return _ask("attacks", own, tasks, findings)


def _ask(where: str, method: Callable[[Task], _Said], tasks: Sequence[Task], findings: Findings) -> dict[str, _Said]:
    """Return what a method of the environment says to each task; its errors fail the audit, one sentence a kind."""
    found: dict[str, _Said] = {}
    errors: dict[tuple[str, ...], list[str]] = {}  # by kind of failure, what was said
    for task in tasks:
        try:
            found[task.id] = method(task)
        except Exception as error:
            failure = failure_of(where, error, task)
            errors.setdefault(failure.kind, []).append(f"{task.id}: {failure.why}")
    for said in errors.values():
        what = f"{where} failed on {len(said)} of {len(tasks)} tasks, for example {said[0]}"
        findings.fail(Problem(where, what))
    return found
