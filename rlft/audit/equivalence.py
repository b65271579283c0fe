"""Tells golds that are right at each other's tasks from golds that a reward merely fails to refuse.

"Name a country in Europe" has many right answers: the gold of one such task is right at another, and the other way
round. A reward that pays whatever has the form of an answer does the same. So a gold counts as right at another task
only where each of the two is paid in full at the other's task, where that is so for at most three quarters of the
tasks, and where a made-up answer in the same form is not paid. Numbers and days are never set aside: that two of them
are paid for each other is what a tolerance does which is too wide.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rlft.audit.attacks.catalog import KINDS, attempts_at
from rlft.audit.attacks.known import Known
from rlft.audit.attacks.made import position_of
from rlft.audit.attempts import Attempt, Stage
from rlft.audit.findings import REWARD, Scores, on, total_of
from rlft.audit.report import GOLD_KIND, Problem
from rlft.harness.scripted import Script
from rlft.rewards.rubric import TOLERANCE
from rlft.types import Task

_KINDS = ("other_gold", "most_common", "second_most_common")
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
