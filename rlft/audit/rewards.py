"""Audits a reward before it is trained on: plays gold answers and attacks, and compares what they earn."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from rlft.audit.attacks import ATTACKS, attack_scripts
from rlft.audit.findings import (
    Findings,
    Scores,
    by_task,
    judge,
    say_what_failed,
    say_what_never_applies,
    say_what_was_left_out,
    summary,
)
from rlft.audit.report import GOLD, AuditReport, Problem
from rlft.config import HarnessConfig
from rlft.contract.base import BaseEnv
from rlft.contract.faults import described, failure_of
from rlft.errors import ConfigError, RlftError
from rlft.harness.opening import open_playground
from rlft.harness.scripted import Part, Script, as_script, play_scripts
from rlft.progress import Progress, silent
from rlft.rewards.scoring import score_rollouts
from rlft.types import Rewards, Rollouts, Task
from rlft.workers.settings import Workers

_NEEDS_TOOLS = "the answer as text, without a call of a tool, is full on no task: no gold is known"
GOLD_NEEDS_TOOLS = Problem(GOLD, f"gold_completion is not defined, and {_NEEDS_TOOLS}")
"""What the audit says, as a note, where the golds are only answers as text, and none of them is full."""
DEFINE_GOLD = Problem(
    GOLD, _NEEDS_TOOLS, "define gold_completion(task): the assistant's messages in order, with their tool_calls"
)
"""The same as a problem for the environment's author."""


def audit_reward(
    tasks: Sequence[Task],
    environment: BaseEnv,
    *,
    weights: Mapping[str, float],
    full: float | None,
    timeout_seconds: float,
    workers: Workers | None = None,
    harness: HarnessConfig | None = None,
    max_tasks: int = 50,
    seed: int = 0,
    progress: Progress = silent,
    findings: Findings | None = None,
) -> AuditReport:
    """Score, on up to `max_tasks` of these (train) tasks, the gold answer and attacks, which are no answers.

    The attacks are `empty`, `echo` (the prompt's text), `constant` ("I do not know."), `other_gold` (the gold of a task
    with another answer) and `most_common` (the gold most frequent among `tasks`). The gold must be full on every task,
    and every attack must earn less, on every task and in the mean. An attack whose text is the gold itself is left out,
    and so is another task's gold with the same final answer. Where no gold is known, attacks must stay below full.

    Findings that fail the audit are: a violation of these rules, a score that fails, and a part with a weight that is
    `None` in all attempts of every task (only a note where not all tasks were tried with a gold). In an environment
    with tools, the task's answer as text does not count as gold if it is full on no task: a note says so.

    `weights`, `full`, `timeout_seconds` and `workers` are those of `score_rollouts`; `harness` is that of the rollouts,
    so that a gold that training could not reach is found. `seed` picks the tasks and the other golds. Raises
    ConfigError for a weight whose part does not exist. Whatever is wrong with tasks or reward is in the report:
    the caller decides. `findings`, which is empty, is filled with what the report says in sentences.
    """
    findings = Findings() if findings is None else findings
    sample = random.Random(seed).sample(range(len(tasks)), min(max_tasks, len(tasks)))
    picked = [tasks[index] for index in sorted(sample)]
    golds = _golds(tasks, environment, findings)
    scripts = attack_scripts(tasks, golds, picked, seed)
    kinds = [(task, kind) for task in picked for kind in scripts[task.id]]
    parts = [Part(f"audit/{kind}/{task.id}", task, scripts[task.id][kind]) for task, kind in kinds]
    settings = {"weights": weights, "full": full, "timeout_seconds": timeout_seconds, "workers": workers}
    scored = _score(parts, picked, environment, harness, settings, findings, progress)
    rows = [(task.id, kind, reward) for (task, kind), reward in zip(kinds, scored, strict=False)]
    scores, failed = by_task(rows)
    if golds and scores and _is_no_gold(scores, environment, harness or HarnessConfig()):
        findings.note(GOLD_NEEDS_TOOLS)
        golds = {}
        for rewards in scores.values():
            rewards.pop("gold", None)
    is_whole = say_what_never_applies(scored, picked, has_all=len(picked) == len(tasks), golds=golds, findings=findings)
    say_what_failed(failed, findings)
    if is_whole:
        judge(scores, findings)
    say_what_was_left_out(picked, golds, scores, findings)
    attacks = {kind: summary(kind, scores) for kind in ("gold", *ATTACKS)}
    return AuditReport(attacks, tuple(each.finding for each in findings.problems), not findings.failed, len(picked))


def _score(
    parts: Sequence[Part],
    tasks: Sequence[Task],
    environment: BaseEnv,
    harness: HarnessConfig | None,
    settings: Mapping[str, Any],
    findings: Findings,
    progress: Progress,
) -> Rewards:
    """Play and score all attempts. What stops this is a finding, and then there are no rewards."""
    try:
        rollouts = Rollouts(tuple(play_scripts(parts, environment, harness, progress=progress)))
        by_id = {task.id: task for task in tasks}
        return score_rollouts(rollouts, by_id, environment, **settings, progress=progress)
    except ConfigError:
        raise
    except RlftError as error:
        findings.fail(Problem(error.where, f"scoring stopped: {error.what}", error.fix))
    except Exception as error:  # `context` is the environment's code as well
        findings.fail(Problem("context", f"the attempts could not be put together: {described(error)}"))
    return Rewards((), {})


def _is_no_gold(scores: Scores, environment: BaseEnv, harness: HarnessConfig) -> bool:
    """Return whether the golds are only answers as text, in an environment with tools, and full on no task."""
    solved = any(rewards["gold"].solved for rewards in scores.values() if "gold" in rewards)
    return not solved and has_text_gold(environment) and bool(open_playground(environment, harness).tools)


def has_text_gold(environment: BaseEnv) -> bool:
    """Return whether `gold_completion` is not overridden, so that the gold is the task's answer as text."""
    return type(environment).gold_completion is BaseEnv.gold_completion


def _golds(tasks: Sequence[Task], environment: BaseEnv, findings: Findings) -> dict[str, Script]:
    """Return {task id: gold completion} for the tasks that have one; an error of `gold_completion` is a finding."""
    golds: dict[str, Script] = {}
    errors: dict[tuple[str, ...], list[str]] = {}  # by kind of failure, what was said
    for task in tasks:
        try:
            gold = environment.gold_completion(task)
            script = None if gold is None else as_script(gold)
        except Exception as error:
            failure = failure_of(GOLD, error, task)
            errors.setdefault(failure.kind, []).append(f"{task.id}: {failure.why}")
            continue
        if script is not None:
            golds[task.id] = script
    for said in errors.values():
        what = f"gold_completion failed on {len(said)} of {len(tasks)} tasks, for example {said[0]}"
        findings.fail(Problem(GOLD, what))
    return golds
