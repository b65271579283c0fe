"""Asks an environment for the golds of tasks and its own attacks, and tells which golds are right elsewhere.

"Name a country in Europe" has many right answers: the gold of one such task is right at another, and the other way
round. A reward that pays whatever has the form of an answer does the same. So a gold counts as right at another task
only where each of the two is paid in full at the other's task, where that is so for at most three quarters of the
tasks, and where a made-up answer in the same form is not paid. Numbers and days are never set aside: that two of them
are paid for each other is what a tolerance does which is too wide.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.faults import defined_at, failure_of
from rlft.environments.contract.several import Several
from rlft.environments.workers.threads import MAX_LATE_IN_A_ROW, Late, in_thread, run_bounded
from rlft.harness.scripted import Script, as_script
from rlft.outcome import Failure
from rlft.rewards.audit.attacks import KINDS, attempts_at
from rlft.rewards.audit.attacks.base import Known
from rlft.rewards.audit.attacks.texts import position_of
from rlft.rewards.audit.attempts import Attempt, Stage
from rlft.rewards.audit.findings import REWARD, Findings, Scores, on, total_of
from rlft.rewards.audit.report import GOLD, GOLD_KIND, Problem
from rlft.rewards.rubric import TOLERANCE
from rlft.types import Task

ATTACKS = "attacks"
"""The method by which an environment names attacks."""
_WAYS_OUT = {
    GOLD: "return text, the assistant's messages in order, or None, within the time limit",
    ATTACKS: "return {name: text or messages} within the time limit",
}


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
    errors: dict[tuple[str, ...], list[tuple[Task, Failure]]] = {}  # by kind of failure
    [(_, answers)] = run_bounded([partial(_answers, where, method, tasks, seconds)], None)
    for task, said in zip(tasks, answers, strict=False):
        if isinstance(said, Late):
            said = _hung(where, environment, task, said)
            findings.hangs = True
        if isinstance(said, Failure):
            errors.setdefault(said.kind, []).append((task, said))
        else:
            found[task.id] = said
    unasked = f", and {len(tasks) - len(answers)} were not asked" if len(answers) < len(tasks) else ""
    for failed in errors.values():
        task, error = failed[0]
        what = f"{where} failed on {len(failed)} of {len(tasks)} tasks{unasked}, for example {task.id}: {error.why}"
        fix = "mend this line; it must work for every task" if error.place else _WAYS_OUT[where]
        findings.fail(Problem(where, what, fix))
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


_KINDS = ("other_gold", "most_common")
_MADE = "made_answer"
_MOST = 0.75  # of the tasks; who pays nearly every gold everywhere tells no gold from another
_FEW = 0.25
Pair = tuple[Known, str, Task]  # a task, the kind of attempt that is a gold, and the task whose gold it is


def set_aside_right_ones(
    scores: Scores, known: Sequence[Known], tasks: Sequence[Task], golds: Mapping[str, Script], stage: Stage
) -> None:
    """Take the golds that are right at each other's tasks out of the scores, with a note.

    Out of them is also taken what else holds such a gold. `golds` are those of all `tasks`; they are played at each
    other's tasks where there is a reason to.
    """
    pairs = _pairs(scores, known, {_key(golds[task.id]): task for task in reversed(tasks) if task.id in golds})
    if not pairs or _pays_made_up(scores):
        return
    begins = len(stage.rows)
    stage.play([Attempt(other, "back", each.gold or (), place) for place, (each, _, other) in enumerate(pairs)])
    back = stage.rows[begins:]
    del stage.rows[begins:], stage.rollouts[begins:]
    if stage.stopped:
        return
    found = [pair for pair, (_, reward) in zip(pairs, back, strict=True) if reward.solved]
    for kind in _KINDS:
        _take_out([each for each, of, _ in found if of == kind], kind, scores, stage)


def _key(script: Script) -> str:
    return json.dumps(script, sort_keys=True)


def _pairs(scores: Scores, known: Sequence[Known], sources: Mapping[str, Task]) -> list[Pair]:
    """Return the golds that are paid like gold at another task, of each kind that is so on few enough tasks."""
    pairs: list[Pair] = []
    for kind in _KINDS:
        tried = [each for each in known if {GOLD_KIND, kind} <= set(scores.get(each.task.id, {}))]
        words = [each for each in tried if position_of(each.answer) is None]
        like = [each for each in words if _is_like_gold(scores, each.task.id, kind)]
        if len(like) <= _MOST * len(tried):
            scripts = [(each, KINDS[kind].scripts(each)[0]) for each in like]
            pairs += [(each, kind, sources[_key(script)]) for each, script in scripts if _key(script) in sources]
    return pairs


def _is_like_gold(scores: Scores, task_id: str, kind: str) -> bool:
    return total_of(scores[task_id][kind]) >= total_of(scores[task_id][GOLD_KIND]) - TOLERANCE


def _pays_made_up(scores: Scores) -> bool:
    """Return whether made-up answers are paid like gold on a quarter of the tasks, or none was tried."""
    tried = [task_id for task_id, rewards in scores.items() if {GOLD_KIND, _MADE} <= set(rewards)]
    return sum(_is_like_gold(scores, task_id, _MADE) for task_id in tried) >= _FEW * len(tried)


def _take_out(right: Sequence[Known], kind: str, scores: Scores, stage: Stage) -> None:
    if not right:
        return
    said = f"{kind} earns as much as gold {on([scores[each.task.id][kind] for each in right])}, and gold there at its "
    said += "task: both answers are taken for right at both tasks, which only a person can confirm"
    stage.findings.note(Problem(REWARD, said))
    for each in right:
        rewards = scores[each.task.id]
        for name in {kind, *(_with_other(each) if kind == _KINDS[0] else ())} & set(rewards):
            del rewards[name]


def _with_other(known: Known) -> list[str]:
    """Return the kinds whose attempts hold the gold of the other task."""
    made = attempts_at(known, all_kinds=True)
    without = attempts_at(replace(known, rival=None), all_kinds=True)
    return [kind for kind, scripts in made.items() if scripts != without.get(kind)]
