"""Audits a reward as the section `reward` of a config says, those of several environments one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlft.audit.report import AuditReport
from rlft.audit.rewards import audit_reward
from rlft.config import Config, HarnessConfig, RewardConfig
from rlft.contract.base import BaseEnv
from rlft.contract.several import Several, places_of
from rlft.errors import RewardAuditError
from rlft.progress import Progress, silent
from rlft.tasks.use.records import without_use
from rlft.types import Task, add_judging


def audit_by(
    settings: RewardConfig,
    tasks: Sequence[Task],
    environment: BaseEnv,
    *,
    harness: HarnessConfig,
    seed: int,
    progress: Progress = silent,
) -> AuditReport:
    """Audit the reward with these (train) tasks by `audit_reward`, and raise what it raises.

    Tasks from use are left out, as `rlft audit` has none: what a person said of one must not end a run.
    Of several environments each is audited with its own tasks, reward and settings, and all have to pass; the kinds of
    attack and the findings begin with the environment's name.
    """
    if not isinstance(environment, Several):
        return audit_reward(
            without_use(tasks),
            environment,
            weights=settings.weights,
            full=settings.full,
            timeout_seconds=settings.timeout_seconds,
            workers=settings.workers(),
            max_ratio=settings.max_exploit_ratio,
            accept=settings.accept_exploits,
            harness=harness,
            seed=seed,
            progress=progress,
        )
    return _joined(
        {
            name: audit_by(
                settings.of_member(name),
                [tasks[place] for place in places],
                environment.members[name],
                harness=harness,
                seed=seed,
                progress=progress,
            )
            for name, places in places_of(environment, tasks).items()
        }
    )


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
        judging=add_judging(each.judging for each in reports.values()),
    )
