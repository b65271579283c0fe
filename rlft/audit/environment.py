"""Checks an environment for its author, on tasks and without a model.

A gold completion must be full, an empty answer earn nothing, and a conversation and its score be the same when they are
repeated; the tools must be described, and the attacks of the reward audit fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlft.audit.findings import Findings, none_on
from rlft.audit.report import GOLD, CheckReport, Problem
from rlft.audit.rewards import DEFINE_GOLD, GOLD_NEEDS_TOOLS, audit_reward, has_text_gold
from rlft.audit.trials import Trial, changed, failures, gold_scripts, paid, try_scripts, unfinished
from rlft.config import HarnessConfig, SourceConfig
from rlft.contract.base import BaseEnv
from rlft.contract.faults import described
from rlft.contract.loading import check_signatures, load_environment
from rlft.contract.tools import ToolSpec
from rlft.errors import RlftError, TaskError
from rlft.files import files_read, named_files
from rlft.fingerprints.identity import environment_fingerprints
from rlft.harness.opening import open_playground
from rlft.harness.scripted import as_script
from rlft.progress import Progress, silent
from rlft.rewards.rubric import TOLERANCE, minimum_of, never_given, weight_of
from rlft.tasks import read_tasks
from rlft.tasks.rows import ANSWER_FIELDS
from rlft.types import Task

_AUDIT_WAY_OUT = "let gold earn 1, or the declared maximum, in every part, and everything else less"
_MEND = "mend it; it must work before anything can be tried"


def check_named(
    name: str,
    kwargs: dict[str, Any],
    source: SourceConfig,
    *,
    timeout_seconds: float = 10.0,
    progress: Progress = silent,
) -> CheckReport:
    """Check an environment on tasks, both as a config names them, as `check_environment` does.

    What cannot be loaded is a problem in the report, and so is a file that the environment reads and that enters no
    fingerprint.
    """
    try:
        tasks = read_tasks(source, environment=name, progress=progress)
    except Exception as error:
        fields = ("this command takes the names of fields as --prompt, --answer and --id",)
        return CheckReport((str(_problem(error, name)),), notes=fields if isinstance(error, TaskError) else ())
    try:
        with files_read() as files:
            environment = load_environment(name, kwargs)
            environment_fingerprints(environment, name, kwargs)
            report = check_environment(environment, tasks, timeout_seconds=timeout_seconds, progress=progress)
    except (Exception, SystemExit) as error:
        return CheckReport((str(_problem(error, name)),))
    if report.gold is not True:
        report = replace(report, notes=(*report.notes, *_without_answers(tasks, source)))
    unknown = sorted(files - {path.resolve() for path in named_files(kwargs)} - {Path(source.path or "").resolve()})
    if not unknown or environment.data_fingerprint():
        return report
    return replace(report, problems=(*report.problems, str(_unseen(unknown))))


def _without_answers(tasks: Sequence[Task], source: SourceConfig) -> tuple[str, ...]:
    """Return a sentence if no task has an answer and nobody has said which field has it."""
    if source.answer is not None or any(task.answer is not None for task in tasks):
        return ()
    there = ", ".join(dict.fromkeys(key for task in tasks for key in task.info))
    return (
        f"no task has a right answer, which is read from {', '.join(ANSWER_FIELDS)}; if another field has it, name "
        f"that with --answer FIELD (a row has: {there:.200})",
    )


def check_environment(
    environment: BaseEnv, tasks: Sequence[Task], *, timeout_seconds: float = 10.0, progress: Progress = silent
) -> CheckReport:
    """Try an environment on tasks: its tools, gold and silence on every task twice, and the attacks of the audit.

    `timeout_seconds` bounds each call of a tool and each score. What is wrong with the environment is in the report and
    is not raised. The check ends early where nothing more can be tried: without tools that can be described, or without
    any score.
    """
    harness = HarnessConfig(tool_timeout_seconds=timeout_seconds)
    try:
        check_signatures(environment)
        tools = tuple(open_playground(environment, harness).tools.values())
    except Exception as error:
        return CheckReport((str(_problem(error, "list_tools")),))
    golds, problems = gold_scripts(tasks, environment, timeout_seconds)
    problems = [*_undescribed(tools), *problems]
    scripts = [("gold", task, golds[task.id]) for task in tasks if task.id in golds]
    scripts += [("silence", task, as_script("")) for task in tasks]
    try:
        trials = try_scripts(scripts[:1], environment, harness)
        broken = failures(trials)  # the first alone: what fails there would mostly fail, or hang, on every task
        if not broken or all(reward.parts for trial in trials for reward in trial.scored):
            trials = try_scripts(scripts, environment, harness, progress=progress)
            broken = failures(trials)
    except RlftError as error:
        return CheckReport((*map(str, problems), str(_problem(error, "compute_reward"))), tools=tools)
    return _report(environment, tasks, tools, trials, problems, broken, timeout_seconds, progress)


def _undeclared(trials: Sequence[Trial], environment: BaseEnv) -> tuple[str, ...]:
    """Return a sentence that names the parts with a weight that declare no lowest score, if there are any."""
    weights, declared = environment.reward_weights(), environment.reward_minima()
    parts = dict.fromkeys(name for trial in trials for each in trial.scored for name in each.parts)
    names = [name for name in parts if weight_of(name, weights) and minimum_of(name, declared) is None]
    if not names:
        return ()
    return (
        f"no lowest score is declared for {', '.join(names)}: with evaluation.metric: reward, declare it "
        "(reward_minima), so that intervals allow for rare large losses",
    )


def _unseen(files: Sequence[Path]) -> Problem:
    """Return the problem that the environment reads these files and that no fingerprint would show their change."""
    more = f" and {len(files) - 3} more files" if len(files) > 3 else ""
    return Problem(
        "data_fingerprint",
        f"it reads {', '.join(map(str, files[:3]))}{more}, and nothing says so: after a change rollouts of the old "
        "data would come from the cache",
        "return rlft.file_hash(PATH) from data_fingerprint(), or take the path from environment.kwargs, whose files "
        "are known",
    )


def _report(
    environment: BaseEnv,
    tasks: Sequence[Task],
    tools: tuple[ToolSpec, ...],
    trials: Sequence[Trial],
    problems: Sequence[Problem],
    broken: Sequence[Problem],
    timeout_seconds: float,
    progress: Progress,
) -> CheckReport:
    golds = [trial for trial in trials if trial.kind == "gold"]
    silences = [trial for trial in trials if trial.kind == "silence"]
    cut, other = list(unfinished(golds)), list(changed(trials))
    never = _never_given(environment, tasks, tools, trials)
    audit, findings = None, Findings()
    if not broken and not cut and not never:  # the audit plays the same conversations: it would say the same again
        audit = audit_reward(
            tasks,
            environment,
            weights={},
            full=None,
            timeout_seconds=timeout_seconds,
            harness=HarnessConfig(tool_timeout_seconds=timeout_seconds),
            max_tasks=len(tasks),
            progress=progress,
            findings=findings,
        )
    if GOLD_NEEDS_TOOLS in findings.problems:
        problems = [*problems, DEFINE_GOLD]
    attacks = _attacks(findings, gold_told=any(each.where == GOLD for each in problems))
    notes = audit.findings if audit and audit.passed else ()
    notes = (*notes, *_undeclared(trials, environment))
    if broken and len(trials) == 1 < len(tasks):
        notes = (*notes, f"the other {len(tasks) - 1} tasks were not tried: what fails on the first fails on most")
    return CheckReport(
        problems=tuple(map(str, (*problems, *never, *broken, *cut, *other, *paid(silences), *attacks))),
        notes=notes,
        gold=_holds(
            len(golds) == len(tasks) and not never and all(each.solved for t in golds for each in t.scored), golds
        ),
        silence=_holds(len(silences) == len(tasks) and all(map(_earns_nothing, silences)), silences),
        repeats=_holds(not other, trials if other or not broken else ()),
        tools=tools,
        audit=audit,
        rollout=golds[0].played[0] if golds else None,
        reward=golds[0].scored[0] if golds else None,
        weights=environment.reward_weights(),
    )


def _never_given(
    environment: BaseEnv, tasks: Sequence[Task], tools: Sequence[ToolSpec], trials: Sequence[Trial]
) -> list[Problem]:
    """Return a problem if parts with a weight are `None` in all attempts, else nothing.

    Nothing is said if a gold is missing, or if it is only the answer as text though there are tools: then nothing shows
    that the parts do not apply to a real attempt.
    """
    has_golds = {trial.task.id for trial in trials if trial.kind == "gold"} >= {task.id for task in tasks}
    if not has_golds or (tools and has_text_gold(environment)):
        return []
    never = never_given((each.parts for trial in trials for each in trial.scored), environment.reward_weights())
    return [none_on(never, "every task")] if never else []


def _undescribed(tools: Sequence[ToolSpec]) -> list[Problem]:
    """Return the problems of tools or arguments without a description: a model would have to guess."""
    problems: list[Problem] = []
    for tool in tools:
        if not tool.description.strip():
            problems.append(
                Problem(f"tool {tool.name}", "it has no description", "say what it does, and when to use it")
            )
        properties: dict[str, Any] = tool.parameters.get("properties", {})
        bare = [name for name, schema in properties.items() if not _described(schema)]
        if bare:
            fix = "add a line for each under Args: in the docstring, or a description in the schema"
            problems.append(Problem(f"tool {tool.name}", f"nothing says what {', '.join(bare)} should be", fix))
    return problems


def _described(schema: Any) -> bool:
    return isinstance(schema, dict) and bool(str(schema.get("description", "")).strip())


def _holds(holds: bool, tried: Sequence[Trial]) -> bool | None:
    """Return `holds`, or `None` if nothing was tried."""
    return holds if tried else None


def _earns_nothing(trial: Trial) -> bool:
    return all(reward.total is not None and reward.total <= TOLERANCE for reward in trial.scored)


def _attacks(findings: Findings, *, gold_told: bool) -> list[Problem]:
    """Return what the audit found as problems if it failed; the findings of one that passed are notes.

    With `gold_told` the problems of gold completions have been told before, and are left out.
    """
    found = [each for each in findings.problems if not (gold_told and each.where == GOLD)] if findings.failed else []
    return [replace(each, where="reward audit", fix=each.fix or _AUDIT_WAY_OUT) for each in found]


def _problem(error: BaseException, where: str) -> Problem:
    """Return an error as a problem with its place and way out; `where` is the place unless the error names one."""
    if isinstance(error, RlftError):
        return Problem(error.where or where, error.what, error.fix or _MEND)
    return Problem(where, described(error), _MEND)
