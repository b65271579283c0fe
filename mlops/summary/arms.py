"""Compares the arms of a run for its summary: metrics, differences, costs, and the status and promotion by these."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote

from mlops.registry.names import CHAMPION
from mlops.summary.summary import (
    Change,
    Contamination,
    ControlCost,
    Difference,
    Mean,
    Promotion,
    SeveralAttempts,
    Status,
    TextChange,
)
from rlft.evaluation.comparison import compare
from rlft.evaluation.forgetting import Change as BitsChange
from rlft.evaluation.forgetting import TextBits
from rlft.evaluation.promotion import Decision, RegisteredVersion
from rlft.evaluation.searches.prompts import PromptReport
from rlft.evaluation.searches.validator import ControlReport
from rlft.evaluation.statistics import PassAtK
from rlft.tasks.contamination import ContaminationReport, clean_mean, contamination_sentence
from rlft.types import Evaluation, Interval

_BARE = 1 / 4  # of the length of an attempt: shorter answers leave out what a model writes before its own


def arm_metrics(evaluation: Evaluation) -> dict[str, float]:
    """Return the metrics of an arm: those of `test` by their plain names, the other splits' with the split in front."""
    metrics: dict[str, float] = {}
    for split, report in evaluation.splits.items():
        prefix = "" if split == "test" else f"{split}/"
        metrics |= {f"{prefix}{name}": interval.mean for name, interval in report.metrics.items()}
    return metrics


def difference(trained: Evaluation, other: Evaluation, metric: str) -> Difference | None:
    """Return the paired difference on `test`, with its 95 % interval; `None` if no task was scored for both.

    `before` and `after` are the means of `other` and `trained` over the same tasks as the difference: a part of the
    reward need not apply to every task of both.
    """
    found = compare(trained.splits["test"], other.splits["test"], metric)
    if found is None:
        return None
    interval = found.difference
    return Difference(
        metric=metric,
        before=found.before,
        after=found.after,
        mean=interval.mean,
        ci_low=interval.low,
        ci_high=interval.high,
        tasks=interval.count,
        groups=interval.groups,
        errors=found.errors,
        ci_low_errors=found.low_with_errors,
        ci_high_errors=found.high_with_errors,
        without_score=list(found.without_score),
        declared=found.declared,
    )


def part_differences(trained: Evaluation, other: Evaluation) -> dict[str, Difference | None]:
    """Return the `difference` of every part of the reward and every metric of the environment, by its name."""
    names = [name for name in trained.splits["test"].per_task if name.startswith("rewards/")]
    both = [name for name in names if name in other.splits["test"].per_task]
    # An attempt without a score does not say whether a part would have applied to it, so errors are not counted here.
    plain = {"errors": 0, "ci_low_errors": None, "ci_high_errors": None, "without_score": []}
    found = {name: difference(trained, other, name) for name in both}
    return {name: each and each.model_copy(update=plain) for name, each in found.items()}


def several_attempts(found: PassAtK | None) -> SeveralAttempts | None:
    """Return the curves of pass@k and what they say, for the summary."""

    def change(interval: Interval) -> Change:
        return Change(mean=interval.mean, ci_low=interval.low, ci_high=interval.high)

    return found and SeveralAttempts(
        start=list(found.start),
        trained=list(found.trained),
        difference_at_1=change(found.at_one),
        difference_at_n=change(found.at_n),
        tasks=found.at_n.count,
        errors=found.errors,
        effect=found.effect,
    )


def cost_of(report: ControlReport | PromptReport, attempt_tokens: float | None) -> ControlCost:
    """Return what a control was made from; `attempt_tokens` is the mean length of attempts before training."""
    cost = ControlCost(
        flops=report.spent, budget=report.budget, seconds=report.seconds, demonstrations=report.demonstrations
    )
    if isinstance(report, PromptReport):
        told = {"prompt_tokens": report.prompt_tokens, "completion_tokens": report.completion_tokens}
        return cost.model_copy(update=told)
    if not report.answers:
        return cost
    alone = {candidate.form for candidate in report.candidates} <= {"gold"}
    bare = alone and attempt_tokens is not None and report.answer_tokens < _BARE * attempt_tokens
    told = {"answer_tokens": report.answer_tokens, "attempt_tokens": attempt_tokens}
    return cost.model_copy(update={"answers": "bare" if bare else report.answers, **told})


def status_of(difference_to_start: Difference | None) -> Status:
    """Return `improved` if the whole interval on `test` is above zero, errors counted against the trained policy too.

    It is `failed` if there is nothing to compare.
    """
    if difference_to_start is None:
        return "failed"
    return "improved" if difference_to_start.is_above_zero else "not_improved"


def promotion_section(decision: Decision, version: RegisteredVersion, name: str, *, anew: bool = False) -> Promotion:
    """Return what happened in the registry.

    With `anew` the version may have been decided on before: what has become of it since counts.
    """
    waits = version.approval in ("pending", "rejected")
    taken_back = anew and decision.promote and not waits and not version.withheld and CHAMPION not in version.aliases
    promoted = decision.promote and not waits and not version.withheld and not taken_back
    more: list[str] = []
    if version.approval == "pending":
        more.append(
            f"passed, and waits for a person: `rlft approve {quote(name)} {version.version}` makes it the champion, "
            f"`rlft reject {quote(name)} {version.version} --reason TEXT` does not"
        )
    if version.withheld and (decision.promote or not anew):  # else this decision has compared with the champion of now
        more.append(f"not promoted: {version.withheld}")
    if taken_back:
        more.append(
            f"not promoted: version {version.version} has passed this gate before, and is not the champion any more "
            f"(`rlft history {quote(name)}` says why); `rlft rollback {quote(name)} --to {version.version} --reason "
            "TEXT` brings it back"
        )
    return Promotion(
        promoted=promoted,
        name=name,
        version=version.version,
        alias="champion" if promoted else "challenger",
        approval=version.approval or None,
        reasons=[*decision.reasons, *more],
        look=decision.look,
        looks=decision.looks,
    )


def contamination_sections(
    found: ContaminationReport, trained: Evaluation, start: Evaluation, metric: str
) -> dict[str, Contamination]:
    """Return what was found, by split, for the splits on which the trained policy has scores in the metric."""
    return {
        split: _contamination(found, split, trained, start, metric)
        for split in found.splits
        if split in trained.splits and trained.splits[split].per_task.get(metric)
    }


def _contamination(
    found: ContaminationReport, split: str, trained: Evaluation, start: Evaluation, metric: str
) -> Contamination:
    ours, counts = trained.splits[split], found.counts(split)
    clean = clean_mean(ours, found, metric)
    theirs = start.splits.get(split)
    comparable = theirs is not None and theirs.per_task.get(metric)
    difference = compare(ours, theirs, metric, without=set(found.found)) if theirs and comparable else None
    return Contamination(
        tasks=counts["tasks"],
        exact=counts["exact"],
        overlapping=counts["overlapping"],
        clean=clean and Mean(mean=clean.mean, ci_low=clean.low, ci_high=clean.high, tasks=clean.count),
        clean_difference=difference
        and Change(
            mean=difference.difference.mean,
            ci_low=difference.low_with_errors,
            ci_high=difference.high_with_errors,
        ),
        sentence=contamination_sentence(found, ours, clean, metric),
    )


def text_changes(changes: Mapping[str, BitsChange], warm_start: TextBits | None) -> dict[str, TextChange]:
    """Return by text how many bits per byte the base model, the warm start and the trained model need."""
    between = {} if warm_start is None else warm_start.bits
    return {
        name: TextChange(
            before=each.before,
            warm_start=sum(between[name]) / len(between[name]) if name in between else None,
            after=each.after,
            mean=each.difference.mean,
            ci_low=each.difference.low,
            ci_high=each.difference.high,
            verdict=each.verdict,
        )
        for name, each in changes.items()
    }
