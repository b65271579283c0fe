"""Decides from evaluation reports whether a trained policy becomes the champion, and says why."""

from __future__ import annotations

from dataclasses import dataclass, field

from rlft.statistics import common_tasks, paired_difference
from rlft.types import EvaluationReport, Interval, Report

# Failed rollouts are not a random sample, since hard and long attempts fail first. If more than this share failed, the
# remaining ones cannot be compared.
MAX_ERRORED_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class Decision(Report):
    """Holds the outcome of the gate.

    `reasons` has a sentence for each comparison. `comparisons` maps `warm_start`, `base` and `champion` to the
    difference (trained minus that policy) with its interval, for those that could be compared.
    """

    promote: bool
    reasons: tuple[str, ...]
    comparisons: dict[str, Interval] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RegisteredVersion(Report):
    """Names a version in the model registry, and the aliases that point to it now."""

    name: str
    version: str
    model_id: str | None
    aliases: tuple[str, ...]


def decide_promotion(
    trained: EvaluationReport,
    warm_start: EvaluationReport | None,
    base: EvaluationReport,
    champion: EvaluationReport | None,
    *,
    metric: str,
    min_improvement: float,
    resamples: int,
    seed: int,
) -> Decision:
    """Promote only if trained minus each rival has a lower bound strictly above `min_improvement` (in the metric).

    `warm_start` is `None` in a run without one, `champion` before the first promotion. The policy that is champion
    already is not promoted again. Raises ValueError if the reports are of different splits or lack the metric.
    """
    rivals = {"warm_start": warm_start, "base": base, "champion": champion}
    reports = [trained, *(report for report in rivals.values() if report is not None)]
    _check_comparable(reports, metric)
    if champion is not None and champion.policy == trained.policy:
        return Decision(False, (f"the trained policy {trained.policy[:12]} is the champion already",))
    promote, reasons, comparisons = True, [], {}
    for name, rival in rivals.items():
        if rival is None:
            reasons.append(_absent(name))
            continue
        trouble = _not_comparable(trained, rival, metric)
        if trouble:
            promote = False
            reasons.append(f"trained and {_plain(name)} cannot be compared: {trouble}")
            continue
        scores = common_tasks(trained.per_task[metric], rival.per_task[metric])
        difference = paired_difference(*scores, resamples=resamples, seed=seed)
        comparisons[name] = difference
        promote = promote and difference.low > min_improvement
        reasons.append(_sentence(name, metric, difference, min_improvement))
    return Decision(promote, tuple(reasons), comparisons)


def _check_comparable(reports: list[EvaluationReport], metric: str) -> None:
    splits = sorted({report.split for report in reports})
    if len(splits) > 1:
        raise ValueError(f"the reports are of different splits: {', '.join(splits)}")
    for report in reports:
        if metric not in report.per_task:
            known = ", ".join(sorted(report.per_task)) or "none"
            raise ValueError(f"no scores for {metric!r} in the report of policy {report.policy[:12]} (it has: {known})")


def _not_comparable(trained: EvaluationReport, rival: EvaluationReport, metric: str) -> str | None:
    """Return why the two reports cannot be compared, `None` if they can."""
    share = max(errored_share(trained, metric), errored_share(rival, metric))
    if share > MAX_ERRORED_SHARE:
        return f"{share:.1%} of the rollouts failed, at most {MAX_ERRORED_SHARE:.0%} may; evaluate again"
    a, b = trained.per_task[metric].keys(), rival.per_task[metric].keys()
    apart = len(a ^ b) / max(1, len(a | b))
    if apart > MAX_ERRORED_SHARE:
        return f"{apart:.1%} of the tasks were scored for one of them only, at most {MAX_ERRORED_SHARE:.0%} may be"
    if len(a & b) < 2:
        return f"{len(a & b)} common tasks give no interval; at least 2 are needed"
    return None


def errored_share(report: EvaluationReport, metric: str) -> float:
    """Return the share of the report's rollouts that failed, 0 to 1.

    A report has only the number of failed rollouts and the tasks with a score, so every scored task counts with all its
    samples. For one sample per task the share is exact; with more it is too small, at the limit by less than a
    hundredth of it.
    """
    scored = len(report.per_task[metric]) * report.num_samples
    return report.errored / max(1, scored + report.errored)


def _plain(name: str) -> str:
    return {"warm_start": "warm start", "champion": "the champion"}.get(name, name)


def _absent(name: str) -> str:
    if name == "champion":
        return "no champion to compare with: this would be the first"
    return "no warm start in this run: that comparison is left out"


def _sentence(name: str, metric: str, difference: Interval, min_improvement: float) -> str:
    verdict = "passes" if difference.low > min_improvement else "fails"
    return (
        f"{verdict}: {metric} on gate of trained minus {_plain(name)} is {difference.mean:+.4f} "
        f"(95 % interval {difference.low:+.4f} to {difference.high:+.4f}, {difference.count} tasks); "
        f"the lower bound must exceed {min_improvement:+.4f}"
    )
