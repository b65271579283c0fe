"""Audits a reward before it is trained on: plays gold answers and attacks, and compares what they earn."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from rlft.config import Config, HarnessConfig, RewardConfig
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.marks import ToolSpec
from rlft.environments.contract.several import Several, places_of
from rlft.errors import RewardAuditError, RlftError
from rlft.harness.opening import open_playground
from rlft.progress import Progress, silent
from rlft.rewards.audit.attacks import FIRST, KINDS
from rlft.rewards.audit.attacks.base import Known, Pool, other_gold
from rlft.rewards.audit.attacks.texts import position_of
from rlft.rewards.audit.attempts import Attempt, Stage, ask_attacks, ask_golds, play_all
from rlft.rewards.audit.findings import (
    Findings,
    Scores,
    by_task,
    equal_golds,
    judge,
    kinds_in,
    say_what_failed,
    say_what_never_applies,
    say_what_was_left_out,
    set_aside,
    summary,
)
from rlft.rewards.audit.report import GOLD, GOLD_KIND, AuditReport, Problem
from rlft.rewards.cases import run_cases
from rlft.rewards.rubric import full_total
from rlft.rewards.specification.grader import billed
from rlft.tasks.splits import without_use
from rlft.types import Reward, Task

SECONDS = 60.0
"""How long an audit may take, unless the reward of a single task takes longer."""
_NEEDS_TOOLS = "the answer as text, without a call of a tool, is full on no task: no gold is known"
GOLD_NEEDS_TOOLS = Problem(GOLD, f"gold_completion is not defined, and {_NEEDS_TOOLS}")
"""What the audit says, as a note, where the golds are only answers as text, and none of them is full."""
DEFINE_GOLD = Problem(
    GOLD, _NEEDS_TOOLS, "define gold_completion(task): the assistant's messages in order, with their tool_calls"
)
"""The same as a problem for the environment's author."""


@billed
def audit_reward(
    tasks: Sequence[Task],
    environment: BaseEnv,
    reward: RewardConfig,
    *,
    harness: HarnessConfig | None = None,
    max_tasks: int = 50,
    seconds: float = SECONDS,
    seed: int = 0,
    progress: Progress = silent,
) -> AuditReport:
    """Score the golds of up to `max_tasks` of these (train) tasks, and attacks, which deserve no full reward.

    The kinds are those of `attacks`: some are tried on every task, all on up to `attempts.ATTACKED` or, where that
    would take more than `seconds`, on fewer. `findings.judge` says what fails the audit by `reward.max_exploit_ratio`;
    `reward.accept_exploits` names kinds that do not. Gold and the first kinds without a score fail it, too, and a part
    with a weight that is `None` in all attempts of every task (a note where not all tasks were tried with a gold), and
    each case of a specification that does not hold. In an environment with tools, text that is full on no task is no
    gold. Tasks from use are left out: what a person said of one must not end a run.

    Of several environments each is audited with its own tasks, reward and settings, and all have to pass; the kinds of
    attack and the findings begin with the environment's name.

    `harness` is that of the rollouts. `seed` picks tasks and other golds. Raises ConfigError for a weight whose part
    does not exist; all else is in the report.
    """
    limits: dict[str, Any] = {
        "harness": harness, "max_tasks": max_tasks, "seconds": seconds, "seed": seed, "progress": progress,
    }  # fmt: skip
    if not isinstance(environment, Several):
        return audit_one(tasks, environment, reward, **limits)[0]
    members = {
        name: audit_one(
            [tasks[place] for place in places], environment.members[name], reward.of_member(name), **limits
        )[0]
        for name, places in places_of(environment, tasks).items()
    }
    return _joined(members)


def audit_one(
    tasks: Sequence[Task],
    environment: BaseEnv,
    reward: RewardConfig,
    *,
    harness: HarnessConfig | None = None,
    max_tasks: int = 50,
    seconds: float = SECONDS,
    seed: int = 0,
    progress: Progress = silent,
) -> tuple[AuditReport, Stage]:
    """Audit the reward of a single environment as `audit_reward` does; also return what was played and found."""
    tasks, findings = without_use(tasks), Findings(reward.accept_exploits)
    sample = random.Random(seed).sample(range(len(tasks)), min(max_tasks, len(tasks)))
    picked = [tasks[index] for index in sorted(sample)]
    golds = ask_golds(tasks, environment, findings)
    bare = [task for task in tasks if task.answer is None or task.id not in golds]
    if picked and 0 < len(bare) < len(tasks):
        said = f"{len(bare)} of {len(tasks)} tasks have no answer or no gold, for example {bare[0].id}"
        findings.note(Problem("tasks", said))
        if {task.id for task in bare}.isdisjoint(task.id for task in picked):
            picked[-1] = bare[0]  # so that it is seen whether such a task can be scored
    stage = Stage(environment, harness or HarnessConfig(), reward, findings, progress, scripts=golds)
    own = ask_attacks(picked, environment, KINDS, findings)
    pool, tools = Pool.of(golds, tasks), _tools(environment, stage.harness)
    known = [
        Known(task, golds.get(task.id), other_gold(task, tasks, golds, pool, seed), pool, tools, own.get(task.id, {}))
        for task in picked
    ]
    attacked = play_all(known, stage, seconds)
    tried = len({attempt.task.id for attempt, _ in stage.rows}) or len(picked)
    scores = _judged(stage, known, tasks, is_all=tried == len(tasks))
    cases = run_cases(environment, tasks, reward.weights, timeout_seconds=reward.timeout_seconds)
    for case in (each for each in cases if each.failed):
        findings.fail(Problem("cases", str(case)))
    if tried < len(picked) and not stage.stopped:
        each = stage.seconds / max(1, len(stage.rows))
        said = f"an attempt takes {each:.2g} s, so that {tried} of {len(picked)} tasks were tried in {seconds:g} s"
        findings.note(Problem("compute_reward", said))
    return _report(scores, stage, tried, attacked), stage


def _judged(stage: Stage, known: Sequence[Known], tasks: Sequence[Task], *, is_all: bool) -> Scores:
    """Say what the scores mean, and return them by task. `is_all` says that no task was left out."""
    golds = stage.scripts
    picked = [each.task for each in known]
    findings, rows = stage.findings, [(attempt.task.id, attempt.kind, reward) for attempt, reward in stage.rows]
    scores, failed = by_task(rows, stage.other_calls)
    if golds and scores and known[0].tools and _is_no_gold(scores, stage.environment):
        findings.note(GOLD_NEEDS_TOOLS)
        golds = {}
        for rewards in scores.values():
            rewards.pop(GOLD_KIND, None)
    given = [reward for _, _, reward in rows]
    is_whole = say_what_never_applies(given, stage.weights, picked, has_all=is_all, golds=golds, findings=findings)
    say_what_failed(failed, findings)
    if is_whole:
        words = [each.task.id for each in known if position_of(each.answer) is None]
        sources = {repr(golds[task.id]): task for task in reversed(tasks) if task.id in golds}  # the first with a gold
        for kind, like in equal_golds(scores, words).items():
            set_aside(kind, _paid_back(kind, like, known, sources, stage), scores, findings)
        judge(scores, findings, stage.reward.max_exploit_ratio, _highest(given, stage))
    say_what_was_left_out(picked, golds, scores, findings)
    return scores


def _paid_back(
    kind: str, task_ids: Sequence[str], known: Sequence[Known], sources: Mapping[str, Task], stage: Stage
) -> list[str]:
    """Return those of the tasks whose own gold is full at the task of the gold which this kind has tried at them."""
    pairs = [
        (each.task.id, Attempt(sources[repr(script)], "back", each.gold or (), place))
        for place, each in enumerate(known)
        for script in (KINDS[kind].scripts(each) if each.task.id in task_ids else ())
    ]
    back = stage.play_apart([attempt for _, attempt in pairs])
    return [task_id for (task_id, _), reward in zip(pairs, back, strict=False) if reward.solved]


def _highest(given: Sequence[Reward], stage: Stage) -> float:
    """Return the total that counts as solved; 0 where nothing was scored."""
    parts = next((reward.parts for reward in given if reward.error is None), {})
    full = stage.reward.full
    return full_total(parts, stage.weights, stage.environment.reward_maxima()) if full is None else full


def _report(scores: Scores, stage: Stage, num_tasks: int, attacked: int) -> AuditReport:
    findings = stage.findings
    for name in sorted(set(findings.accept) - set(findings.accepted)):
        findings.note(Problem("reward.accept_exploits", f"{name} is accepted, and nothing was found of that name"))
    kinds = list(dict.fromkeys([GOLD_KIND, *FIRST, *kinds_in(scores)]))
    return AuditReport(
        attacks={kind: summary(kind, scores, stage.weights) for kind in kinds},
        findings=tuple(each.finding for each in findings.problems),
        passed=not findings.failed,
        num_tasks=num_tasks,
        exploits=tuple(findings.exploits),
        accepted=tuple(findings.accepted),
        attempts=len(stage.rows),
        attacked=attacked,
        seconds=stage.seconds,
    )


def _tools(environment: BaseEnv, harness: HarnessConfig) -> Mapping[str, ToolSpec]:
    """Return the tools; none where they cannot be described, which stops the first attempt with a finding."""
    try:
        return open_playground(environment, harness).tools
    except RlftError:
        return {}


def _is_no_gold(scores: Scores, environment: BaseEnv) -> bool:
    """Return whether the golds are only answers as text, and full on no task."""
    solved = any(rewards["gold"].solved for rewards in scores.values() if "gold" in rewards)
    return not solved and type(environment).gold_completion is BaseEnv.gold_completion


def way_out(config: Config) -> str:
    """Return what to do about a reward that fails its audit, by what it is written in."""
    mend = "mend compute_reward until gold is full and beats every attack"
    if config.environments:
        mend = "mend the rewards until gold is full and beats every attack"
    elif config.reward.spec is not None:
        mend = "mend the criteria of reward.spec until gold is full and beats every attack, and the cases hold"
    return f"{mend}, or name in reward.accept_exploits the attacks that may be paid"


def check_audit(report: AuditReport, config: Config) -> None:
    """Raise RewardAuditError, with the report, for a reward that failed its audit: it would teach the wrong thing."""
    if not report.passed:
        raise RewardAuditError(
            "the reward pays wrong answers:\n" + report.text(),
            where=config.environment_name,
            fix=f"{way_out(config)}, or set reward.audit: false",
        )


def _joined(reports: Mapping[str, AuditReport]) -> AuditReport:
    return AuditReport(
        attacks={f"{name}/{kind}": scores for name, each in reports.items() for kind, scores in each.attacks.items()},
        findings=tuple(f"{name}: {said}" for name, each in reports.items() for said in each.findings),
        passed=all(each.passed for each in reports.values()),
        num_tasks=sum(each.num_tasks for each in reports.values()),
        exploits=tuple(f"{name}/{kind}" for name, each in reports.items() for kind in each.exploits),
        accepted=tuple(f"{name}/{kind}" for name, each in reports.items() for kind in each.accepted),
        attempts=sum(each.attempts for each in reports.values()),
        attacked=sum(each.attacked for each in reports.values()),
        seconds=sum(each.seconds for each in reports.values()),
        members=tuple(reports),
    )
