"""Checks an environment for its author, on tasks and without a model.

A gold completion must be full and an empty answer earn nothing; the tools must be described, and the attacks of the
reward audit fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlft.config import HarnessConfig, RewardConfig, SourceConfig
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.faults import described
from rlft.environments.contract.loading import load_environment
from rlft.environments.contract.marks import ToolSpec
from rlft.environments.fingerprints import environment_fingerprints
from rlft.errors import RlftError, TaskError
from rlft.harness.opening import open_playground
from rlft.harness.scripted import Part, Script, as_script, play_scripts
from rlft.outcome import Failure
from rlft.progress import Progress, silent
from rlft.rewards.audit.attempts import ask_golds
from rlft.rewards.audit.findings import REWARD, Findings
from rlft.rewards.audit.report import GOLD, GOLD_KIND, CheckReport, Problem
from rlft.rewards.audit.rewards import DEFINE_GOLD, GOLD_NEEDS_TOOLS, audit_reward
from rlft.rewards.rubric import TOLERANCE
from rlft.rewards.scoring import score_rollouts
from rlft.tasks import read_tasks
from rlft.tasks.rows import ANSWER_FIELDS
from rlft.types import Reward, Rollout, Rollouts, Task

_AUDIT_WAY_OUT = "let gold earn 1, or the declared maximum, in every part, and everything else less"
_MEND = "mend it; it must work before anything can be tried"
_WAYS_OUT = {
    "setup": "context and setup must work for every task; setup returns a dict or None",
    "state": "keep text, numbers, lists and dicts in the state: it is stored as JSON",
    "respond": "return text, a message, or None to end the conversation",
    "final_answer": "return text or None",
    REWARD: "return {part: a finite number, or None} for whatever a model says, within the time limit",
}
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


@dataclass(frozen=True, slots=True)
class Trial:
    """Holds an attempt at a task as it was played and scored; `kind` is `gold` or `silence`.

    `tool_faults` say what tools raised, and where.
    """

    kind: str
    task: Task
    script: Script
    rollout: Rollout
    reward: Reward
    tool_faults: Sequence[Failure] = ()


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
    asked = Findings()
    golds = ask_golds(tasks, environment, asked)
    told = [replace(each, what=each.what.removeprefix(f"{GOLD} ")) for each in asked.problems]
    problems = [*_undescribed(tools), *(told or _without_gold(tasks, golds))]
    scripts = [(GOLD_KIND, task, golds[task.id]) for task in tasks if task.id in golds]
    scripts += [("silence", task, as_script("")) for task in tasks]
    try:
        trials = _tried(scripts, environment, harness, reward, progress)
    except RlftError as error:
        return CheckReport((*map(str, problems), str(_problem(error, REWARD))), tools=tools)
    gold, silence = ([trial for trial in trials if trial.kind == kind] for kind in (GOLD_KIND, "silence"))
    wrong = [*_failures(trials), *_unfinished(gold)]
    audit, findings = None, Findings()
    if not wrong:  # the audit plays the same conversations: it would say the same again
        audit = audit_reward(
            tasks, environment, reward, harness=harness, max_tasks=len(tasks), progress=progress, findings=findings
        )
    if GOLD_NEEDS_TOOLS in findings.problems:
        problems = [*problems, DEFINE_GOLD]
    gold_told = any(each.where == GOLD for each in problems)
    attacks = [each for each in findings.problems if not (gold_told and each.where == GOLD)] if findings.failed else []
    attacks = [replace(each, where="reward audit", fix=each.fix or _AUDIT_WAY_OUT) for each in attacks]
    return CheckReport(
        problems=tuple(map(str, (*problems, *wrong, *_paid(silence), *attacks))),
        notes=audit.findings if audit and audit.passed else (),
        gold=len(gold) == len(tasks) and all(trial.reward.solved for trial in gold) if gold else None,
        silence=all(_earns_nothing(trial.reward) for trial in silence) if silence else None,
        tools=tools,
        audit=audit,
        rollout=gold[0].rollout if gold else None,
        reward=gold[0].reward if gold else None,
        weights=environment.reward_weights(),
    )


def _without_gold(tasks: Sequence[Task], golds: dict[str, Script]) -> list[Problem]:
    """Return the problem of tasks without a gold, if there are any."""
    without = [task.id for task in tasks if task.id not in golds]
    if without and not golds:
        what = "no task has a gold answer, so nothing shows that the reward can be earned"
        return [Problem(GOLD, what, "give the tasks an answer, or define gold_completion(task)")]
    what = f"returned None (on {len(without)} task{'s' * (len(without) > 1)}, for example {''.join(without[:1])})"
    return [Problem(GOLD, what, "give every task an answer, or leave those without one out")] if without else []


def _undescribed(tools: Sequence[ToolSpec]) -> Iterator[Problem]:
    """Yield the problems of tools or arguments without a description: a model would have to guess."""
    for tool in tools:
        if not tool.description.strip():
            yield Problem(f"tool {tool.name}", "it has no description", "say what it does, and when to use it")
        properties: dict[str, Any] = tool.parameters.get("properties", {})
        if bare := [name for name, schema in properties.items() if not _described(schema)]:
            fix = "add a line for each under Args: in the docstring, or a description in the schema"
            yield Problem(f"tool {tool.name}", f"nothing says what {', '.join(bare)} should be", fix)


def _described(schema: Any) -> bool:
    return isinstance(schema, dict) and bool(str(schema.get("description", "")).strip())


def _earns_nothing(reward: Reward) -> bool:
    return reward.total is not None and reward.total <= TOLERANCE


def _tried(
    wanted: Sequence[tuple[str, Task, Script]],
    environment: BaseEnv,
    harness: HarnessConfig,
    reward: RewardConfig,
    progress: Progress,
) -> list[Trial]:
    """Play all (kind, task, script), and score the rollouts. Raises RlftError as `score_rollouts` does."""
    faults: dict[str, list[Failure]] = {}
    parts = [Part(f"check/{kind}/{task.id}", task, script) for kind, task, script in wanted]
    rollouts = play_scripts(parts, environment, harness, tool_faults=faults, progress=progress)
    by_id = {task.id: task for _, task, _ in wanted}
    rewards = score_rollouts(Rollouts(tuple(rollouts)), by_id, environment, reward, progress=progress)
    return [
        Trial(kind, task, script, rollout, scored, faults.get(rollout.rollout_id, ()))
        for (kind, task, script), rollout, scored in zip(wanted, rollouts, rewards, strict=True)
    ]


def _failures(trials: Sequence[Trial]) -> list[Problem]:
    """Return what failed in playing and scoring: one problem for each kind of failure, with how often."""
    found: dict[tuple[str, ...], list[tuple[Failure, Trial]]] = {}
    for trial in trials:
        for error in dict.fromkeys(each.error.origin for each in (trial.rollout, trial.reward) if each.error):
            found.setdefault(error.kind, []).append((error, trial))
    return [
        Problem(error.where, f"{error.why} ({_on([trial for _, trial in rows])})",
                error.fix or _WAYS_OUT.get(error.where, _WAYS_OUT[REWARD]))
        for rows in found.values() for error, _ in rows[:1]
    ]  # fmt: skip


def _unfinished(trials: Sequence[Trial]) -> Iterator[Problem]:
    """Yield a problem about the gold conversations that ended early, and one about those in which a tool failed."""
    cut = [trial for trial in trials if trial.rollout.turns < len(trial.script) and not trial.rollout.error]
    if cut:
        said, whole = cut[0].rollout.turns, len(cut[0].script)
        what = f"{said} of its {whole} messages were said before the conversation was over ({_on(cut)})"
        yield Problem(GOLD, what, "call a tool in every message but the last, or raise max_turns")
    if failed := [trial for trial in trials if trial.rollout.tool_errors]:
        told = [message for message in failed[0].rollout.messages if message.get("failed")]
        where = f"tool {told[0].get('name', '')}" if told else "a tool"
        said = told[0]["content"][:_SHORT] if told else ""
        if failed[0].tool_faults:
            where, said = failed[0].tool_faults[0].where, failed[0].tool_faults[0].why
        what = f"a call of the gold conversation failed: {said} ({_on(failed)})"
        yield Problem(where, what, "mend the tool, or the call in gold_completion")


def _paid(trials: Sequence[Trial]) -> Iterator[Problem]:
    """Yield a problem if any of these attempts, which say nothing, earned something."""
    earning = [trial for trial in trials if (trial.reward.total or 0.0) > TOLERANCE]
    if earning:
        reward = earning[0].reward
        what = f"an empty answer earns {reward.total:g} from {reward.parts} ({_on(earning)})"
        yield Problem(REWARD, what, "pay nothing where there is no answer")


def _on(trials: Sequence[Trial]) -> str:
    more = f", and {len(trials) - 1} more" if len(trials) > 1 else ""
    return f"{trials[0].kind} on task {trials[0].task.id}{more}"


def _problem(error: BaseException, where: str) -> Problem:
    """Return an error as a problem with its place and way out; `where` is the place unless the error names one."""
    if isinstance(error, RlftError):
        return Problem(error.where or where, error.what, error.fix or _MEND)
    return Problem(where, described(error), _MEND)
