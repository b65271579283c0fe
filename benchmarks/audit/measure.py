"""Audits all cases, and counts the broken rewards that are found and the honest ones that are accused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from scipy.stats import beta

from benchmarks.audit import honest, planted
from benchmarks.audit.cases import Case
from benchmarks.audit.families import attacked
from rlft.config import RewardConfig
from rlft.rewards.audit.report import AuditReport
from rlft.rewards.audit.rewards import audit_reward

UNSEEN = "benchmarks.audit.unseen"
Authors = Mapping[str, tuple[list[Case], list[Case]]]  # {author: (broken, honest)}


def authors() -> Authors:
    """The cases by who wrote them: `own` by the authors of the attacks, `unseen` by someone who has not read them."""
    found = {"own": (list(planted.BROKEN), list(honest.HONEST))}
    if find_spec(UNSEEN):
        module = import_module(UNSEEN)
        found["unseen"] = (list(module.BROKEN), list(module.HONEST))
    return found


def attackers() -> Authors:
    """The cases of someone who looked for what the attacks miss, by which these were mended: they show no power."""
    return {"attacked": (list(attacked.BROKEN), list(attacked.HONEST))}


def audited(case: Case) -> AuditReport:
    """What the audit says of a case, with the settings that a config has by default."""
    return audit_reward(case.tasks, case.environment, RewardConfig(timeout_seconds=30.0))


def found_by(report: AuditReport) -> tuple[str, ...]:
    """The attacks that fail a reward; none where its gold is not full, so that it is refused for another reason."""
    gold = report.attacks["gold"]
    return report.exploits if not report.passed and gold.minimum == gold.maximum > 0 else ()


def interval(hits: int, count: int) -> tuple[float, float]:
    """The exact interval of 95 % of a share (Clopper and Pearson 1934); from 0 to 1 where nothing was counted."""
    low = float(beta.ppf(0.025, hits, count - hits + 1)) if hits else 0.0
    high = float(beta.ppf(0.975, hits + 1, count - hits)) if hits < count else 1.0
    return low, high


def measure(cases: Authors) -> dict[str, Any]:
    """Audit all cases: how many are found and accused, in all, by author and by family, and which are not as wished."""
    rows = [
        _row(case, author, is_broken=is_broken)
        for author, (broken, fair) in cases.items()
        for is_broken, some in ((True, broken), (False, fair))
        for case in some
    ]
    return {
        **counted(rows),
        "by_author": {name: counted(row for row in rows if row["author"] == name) for name in cases},
        "by_family": {
            name: counted(row for row in rows if row["family"] == name)
            for name in sorted({row["family"] for row in rows})
        },
        "by_attack": {row["name"]: row["by"] for row in rows if row["broken"]},
        "missed": [row["name"] for row in rows if row["broken"] and not row["refused"]],
        "accused": [row["name"] for row in rows if not row["broken"] and row["refused"]],
    }


def _row(case: Case, author: str, *, is_broken: bool) -> dict[str, Any]:
    """What the audit says of a case: a broken reward must fail by an attack, an honest one by nothing."""
    report = audited(case)
    by = found_by(report)
    refused = bool(by) if is_broken else not report.passed
    return {"name": case.name, "author": author, "family": case.family, "broken": is_broken, "refused": refused,
            "by": by}  # fmt: skip


def counted(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The numbers of broken and honest rewards, how many of each are refused, and the intervals of these shares."""
    broken, fair = [], []
    for row in rows:
        (broken if row["broken"] else fair).append(row["refused"])
    return {
        "found": sum(broken), "planted": len(broken), "found_interval": interval(sum(broken), len(broken)),
        "false": sum(fair), "honest": len(fair), "false_interval": interval(sum(fair), len(fair)),
    }  # fmt: skip
