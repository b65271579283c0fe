"""Checks an environment for its author, on tasks and without a model.

It is the reward audit of all tasks, by which a gold completion must be full, an empty answer earn nothing, and attacks
fail; beside it tools must be described, and the gold conversations be played to their end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from rlft.config import HarnessConfig, RewardConfig, SourceConfig
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.faults import described
from rlft.environments.contract.loading import load_environment
from rlft.environments.contract.marks import ToolSpec
from rlft.environments.fingerprints import environment_fingerprints
from rlft.errors import RlftError, TaskError
from rlft.harness.opening import open_playground
from rlft.progress import Progress, silent
from rlft.rewards.audit.attempts import Attempt, Stage
from rlft.rewards.audit.findings import REWARD
from rlft.rewards.audit.report import GOLD, GOLD_KIND, CheckReport, Problem
from rlft.rewards.audit.rewards import DEFINE_GOLD, GOLD_NEEDS_TOOLS, audit_one
from rlft.rewards.rubric import TOLERANCE
from rlft.tasks import read_tasks
from rlft.tasks.rows import ANSWER_FIELDS
from rlft.types import Reward, Task

_AUDIT_WAY_OUT = "let gold earn 1, or the declared maximum, in every part, and everything else less"
_MEND = "mend it; it must work before anything can be tried"
_SHORT = 300  # characters of a tool's message


def check_named(
    name: str,
    kwargs: dict[str, Any],
    source: SourceConfig,
    *,
    timeout_seconds: float = 10.0,
    progress: Progress = silent,
) -> CheckReport:
    """Check an environment on tasks, both as a config names them, as `check_environment` does.

    What cannot be loaded is a problem in the report.
    """
    try:
        tasks = read_tasks(source, environment=name, progress=progress)
    except Exception as error:
        fields = ("this command takes the names of fields as --prompt, --answer and --id",)
        return CheckReport((str(_problem(error, name)),), notes=fields if isinstance(error, TaskError) else ())
    try:
        environment = load_environment(name, kwargs)
        environment_fingerprints(environment, name, kwargs)
        report = check_environment(environment, tasks, timeout_seconds=timeout_seconds, progress=progress)
    except (Exception, SystemExit) as error:
        return CheckReport((str(_problem(error, name)),))
    if report.gold is not True and source.answer is None and all(task.answer is None for task in tasks):
        said = f"no task has a right answer, which is read from {', '.join(ANSWER_FIELDS)}; if another field has it, "
        said += "name that with --answer FIELD (a row has: "
        said += f"{', '.join(dict.fromkeys(key for task in tasks for key in task.info)):.200})"
        report = replace(report, notes=(*report.notes, said))
    return report


def check_environment(
    environment: BaseEnv, tasks: Sequence[Task], *, timeout_seconds: float = 10.0, progress: Progress = silent
) -> CheckReport:
    """Try an environment on tasks: its tools, gold and silence on every task, and the attacks of the audit.

    `timeout_seconds` bounds each call of a tool and each score. What is wrong with the environment is in the report and
    is not raised. The check ends early where nothing more can be tried: without tools that can be described, or without
    any score.
    """
    harness = HarnessConfig(tool_timeout_seconds=timeout_seconds)
    reward = RewardConfig(timeout_seconds=timeout_seconds)
    try:
        tools = tuple(open_playground(environment, harness).tools.values())
    except Exception as error:
        return CheckReport((str(_problem(error, "list_tools")),))
    audit, stage = audit_one(tasks, environment, reward, harness=harness, max_tasks=len(tasks), progress=progress)
    gold, silence = ([row for row in stage.rows if row[0].kind == kind] for kind in (GOLD_KIND, "empty"))
    paid = {attempt.task.id: reward for attempt, reward in gold}
    problems = [*_undescribed(tools), *_without_gold(tasks, stage), *_unfinished(gold, stage), *_paid(silence)]
    if GOLD_NEEDS_TOOLS in stage.findings.problems:
        problems.append(DEFINE_GOLD)
    gold_told = any(each.where == GOLD for each in problems)
    found = [each for each in stage.findings.problems if not (gold_told and each.where == GOLD)]
    told = [replace(each, where="reward audit", fix=each.fix or _AUDIT_WAY_OUT) for each in found]
    first = next(iter(stage.golds), None)
    return CheckReport(
        problems=tuple(map(str, [*problems, *(told if stage.findings.failed else ())])),
        notes=audit.findings if audit.passed else (),
        gold=len(paid) == len(tasks) and all(each.solved for each in paid.values()) if paid else None,
        silence=all(each.total is not None and each.total <= TOLERANCE for _, each in silence) if silence else None,
        tools=tools,
        audit=audit if stage.rows else None,
        rollout=None if first is None else stage.golds[first],
        reward=None if first is None else paid.get(first),
        weights=environment.reward_weights(),
    )


def _without_gold(tasks: Sequence[Task], stage: Stage) -> list[Problem]:
    """Return the problem of tasks without a gold, if there are any."""
    if failed := [each for each in stage.findings.problems if each.where == GOLD and each.fix]:
        return [replace(each, what=each.what.removeprefix(f"{GOLD} ")) for each in failed]
    without = [task.id for task in tasks if task.id not in stage.scripts]
    if without and not stage.scripts:
        what = "no task has a gold answer, so nothing shows that the reward can be earned"
        return [Problem(GOLD, what, "give the tasks an answer (--answer FIELD), or define gold_completion(task)")]
    what = f"returned None (on {len(without)} task{'s' * (len(without) > 1)}, for example {''.join(without[:1])})"
    return [Problem(GOLD, what, "give every task an answer, or leave those without one out")] if without else []


def _undescribed(tools: Sequence[ToolSpec]) -> Iterator[Problem]:
    """Yield the problems of tools or arguments without a description: a model would have to guess."""
    for tool in tools:
        if not tool.description.strip():
            yield Problem(f"tool {tool.name}", "it has no description", "say what it does, and when to use it")
        properties: dict[str, Any] = tool.parameters.get("properties", {})
        if bare := [name for name, at in properties.items() if not (isinstance(at, dict) and at.get("description"))]:
            fix = "add a line for each under Args: in the docstring, or a description in the schema"
            yield Problem(f"tool {tool.name}", f"nothing says what {', '.join(bare)} should be", fix)


def _unfinished(gold: Sequence[tuple[Attempt, Reward]], stage: Stage) -> Iterator[Problem]:
    """Yield a problem about the gold conversations that ended early, and one about those in which a tool failed."""
    played = [(attempt, stage.golds[attempt.task.id]) for attempt, _ in gold if attempt.task.id in stage.golds]
    if cut := [(attempt, rollout) for attempt, rollout in played if rollout.turns < len(attempt.script)]:
        attempt, rollout = cut[0]
        said = f"{rollout.turns} of its {len(attempt.script)} messages were said before the conversation was over"
        yield Problem(GOLD, f"{said} ({_on(cut)})", "call a tool in every message but the last, or raise max_turns")
    if failed := [(attempt, rollout) for attempt, rollout in played if rollout.tool_errors]:
        _, rollout = failed[0]
        told = [message for message in rollout.messages if message.get("failed")]
        where = f"tool {told[0].get('name', '')}" if told else "a tool"
        said = told[0]["content"][:_SHORT] if told else ""
        if faults := stage.tool_faults.get(rollout.rollout_id):
            where, said = faults[0].where, faults[0].why
        what = f"a call of the gold conversation failed: {said} ({_on(failed)})"
        yield Problem(where, what, "mend the tool, or the call in gold_completion")


def _paid(silence: Sequence[tuple[Attempt, Reward]]) -> Iterator[Problem]:
    """Yield a problem if any of these attempts, which say nothing, earned something."""
    if earning := [row for row in silence if (row[1].total or 0.0) > TOLERANCE]:
        reward = earning[0][1]
        what = f"an empty answer earns {reward.total:g} from {reward.parts} ({_on(earning)})"
        yield Problem(REWARD, what, "pay nothing where there is no answer")


def _on(rows: Sequence[tuple[Attempt, Any]]) -> str:
    more = f", and {len(rows) - 1} more" if len(rows) > 1 else ""
    return f"{rows[0][0].kind} on task {rows[0][0].task.id}{more}"


def _problem(error: BaseException, where: str) -> Problem:
    """Return an error as a problem with its place and way out; `where` is the place unless the error names one."""
    if isinstance(error, RlftError):
        return Problem(error.where or where, error.what, error.fix or _MEND)
    return Problem(where, described(error), _MEND)
