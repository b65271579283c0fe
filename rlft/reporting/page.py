"""Writes the page of a run: its blocks, its curves, and why the validated policy that it gives was chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from statistics import fmean

from markupsafe import Markup, escape

from rlft.blocks import Table
from rlft.comparison import compare, completed, ends_of
from rlft.reporting.page_facts import ReportFacts
from rlft.reporting.plots import Points, draw_bars, draw_curves, draw_validation
from rlft.reporting.template import cut, open_template, visible_lines
from rlft.types import EvaluationReport, TrainReport

_WORDS = {
    "reward": "mean reward",
    "accuracy": "share that is solved",
    "completions/mean_length": "mean",
    "completions/max_length": "longest",
    "entropy": "entropy",
    "kl_update": "KL of a round",
    "frac_reward_zero_std": "groups whose attempts all earn the same",
    "completions/clipped_ratio": "completions that were cut off",
}
_METRICS = {
    "accuracy": "Accuracy is the share of attempts that solve their task, that is, whose reward is full: 0 to 1, or in "
    "percentage points where differences are told. An attempt that is right and earns less (for its length, say) is "
    "not counted; `reward.full` says from which total on one is.",
    "reward": "Reward is the mean of what attempts earn, in the unit of the reward itself.",
}
_CURVES = {
    # title: unit, metrics of a round, what to see
    "Reward": (
        "mean of the round",
        ("reward", "accuracy"),
        "The mean reward of all attempts of a round, and the share that is solved. Each round has other tasks, so "
        "neighbours differ.",
    ),
    "Length": (
        "tokens",
        ("completions/mean_length", "completions/max_length"),
        "Tokens of a completion, those of tools included.",
    ),
    "Entropy": ("nats per token", ("entropy",), "How much the policy tries: near 0 it says one thing alone."),
    "Movement": ("KL, nats per token", ("kl_update",), "How far a round moved the policy."),
    "Left out": (
        "share",
        ("frac_reward_zero_std", "completions/clipped_ratio"),
        "Groups whose attempts all earn the same, which teach nothing, and completions that were cut off.",
    ),
}


@dataclass(frozen=True, slots=True)
class _Figure:
    title: str
    svg: str
    caption: str


def make_page(facts: ReportFacts) -> str:
    """Return the page as HTML. Whatever models, tasks and users wrote is shown as text; no part of it can run."""
    examples = [("best", "The best attempts", facts.best), ("worst", "The worst attempts", facts.worst)]
    figures, times = list(_figures(facts)), {name: each for name, each in facts.seconds.items() if each >= 0.05}
    return open_template("page.html.j2").render(
        facts=facts,
        metric=_METRICS.get(facts.metric, ""),
        verdict=[{"kind": type(block).__name__, "value": block} for block in facts.verdict],
        figures=figures,
        ledger=Table("", ("fate", "attempts"), tuple((name, f"{count:,}") for name, count in facts.ledger.items())),
        time=draw_bars(times, xlabel="seconds") if times else "",
        examples=[each for each in examples if each[2]],
        sections=list(_sections(facts, figures=bool(figures), time=bool(times))),
        audit_table=list(takewhile(lambda line: not line.startswith("- ") and not line.endswith("."), facts.audit)),
        table=_table,
        prose=_prose,
        cut=cut,
    )


def _prose(text: str) -> Markup:
    """Return a text with what stands between backticks as code, and arrows that no line break divides."""
    pieces = visible_lines(text).split("`")
    if len(pieces) % 2 == 0:  # one has no counterpart
        pieces = [visible_lines(text)]
    marked = (Markup("<code>{}</code>") if number % 2 else Markup("{}") for number in range(len(pieces)))
    found = Markup("").join(each.format(piece) for each, piece in zip(marked, pieces, strict=True))
    return found.replace(escape("->"), Markup('<span class="arrow">-&gt;</span>'))


def _sections(facts: ReportFacts, *, figures: bool, time: bool) -> Iterator[tuple[str, str]]:
    yield "verdict", "What came of it"
    for id, title, there in (
        ("curves", "Training", figures), ("ledger", "Fates", facts.ledger), ("time", "Time", time),
        ("best", "Best", facts.best), ("worst", "Worst", facts.worst), ("audit", "Audit", facts.audit),
    ):  # fmt: skip
        if there:
            yield id, title
    yield "lineage", "Lineage"
    yield "again", "Again"


def _figures(facts: ReportFacts) -> Iterator[_Figure]:
    if any(facts.metric in report.metrics for report in facts.validations.values()):
        yield _Figure(
            "Validation",
            draw_validation(facts.validations, facts.metric, facts.best_round),
            "On tasks that are not trained on, with 95 % intervals over groups of tasks. The result above is of other "
            "tasks, as the best of several is too good where it was chosen. "
            + choice(facts.validations, facts.metric, facts.best_round),
        )
    for title, (ylabel, names, caption) in _CURVES.items():
        found = {_WORDS[name]: points for name in names if (points := _points(facts.rounds, name))}
        if found:
            yield _Figure(title, draw_curves(found, ylabel=ylabel), caption)
    parts = [name for name in _names(facts.rounds) if name.startswith("rewards/") and name.endswith("/mean")]
    if len(parts) > 1:
        curves = {name.split("/")[1]: _points(facts.rounds, name) for name in parts}
        caption = "The mean of each part of the reward in a round, before its weight."
        yield _Figure("Parts of the reward", draw_curves(curves, ylabel="mean score"), caption)


def _names(rounds: Sequence[TrainReport]) -> list[str]:
    return list(dict.fromkeys(name for report in rounds for name in report.metrics))


def _points(rounds: Sequence[TrainReport], name: str) -> Points:
    return [(report.round, report.metrics[name]) for report in rounds if name in report.metrics]


def _table(table: Table) -> Markup:
    head = Markup("").join(Markup("<th>{}</th>").format(visible_lines(each)) for each in table.columns)
    rows = Markup("").join(
        Markup("<tr>{}</tr>").format(Markup("").join(Markup("<td>{}</td>").format(visible_lines(cell)) for cell in row))
        for row in table.rows
    )
    title = Markup("<caption>{}</caption>").format(visible_lines(table.title)) if table.title else escape("")
    return Markup('<div class="scroll"><table>{}<tr>{}</tr>{}</table></div>').format(title, head, rows)


_NAMED = 3  # more validations than these are counted, not named


def choice(validations: Mapping[int, EvaluationReport], metric: str, best: int | None) -> str:
    """Say whether the validation after `best` rounds, which was chosen, is better than the others beyond chance.

    `validations` are by the number of rounds before. Each is compared with the chosen one task by task at 95 %, which
    all share (Bonferroni). Empty where there was nothing to choose from: the start, and one validation after it.
    """
    scored = {number: each for number, each in sorted(validations.items()) if each.per_task.get(metric)}
    if best not in scored or len(scored) < 3:
        return ""
    confidence = 1 - 0.05 / (len(scored) - 1)
    others = [number for number in scored if number != best]
    found = {number: compare(scored[best], scored[number], metric, confidence=confidence) for number in others}
    near = [number for number, each in found.items() if each is None or not each.exceeds(0)]
    who = f"after {_rounds(best)}" if best else "that training started from"
    errors = ", where attempts without a score count as the lowest" if any(e.errors for e in scored.values()) else ""
    of = _of_which(scored, metric, best) + errors
    chosen = f"The policy {who} was chosen: its mean is the highest{of}, and the first of those that are equal."
    if of != errors:
        chosen += " The start, which is not chosen from, has a higher one."
    if not near:
        return f"{chosen} It is better than each of the others beyond chance."
    if len(near) == len(others):
        return f"{chosen} It is better than none of the others beyond chance, so each of them may be as good."
    named = f"Those after {_listed(near)}" if len(near) <= _NAMED else f"{len(near)} of the others"
    return f"{chosen} {named} may be as good: the difference is within chance."


def _of_which(scored: Mapping[int, EvaluationReport], metric: str, best: int) -> str:
    """Return of which policies the mean after `best` rounds is the highest, where it is not of all: the start counts.

    Errors count as in `rlft.comparison.is_better`.
    """
    if 0 not in scored:
        return ""
    low = ends_of(metric, *scored.values()).low
    start, chosen = (fmean(completed(scored[number], metric, low).values()) for number in (0, best))
    return " of the trained rounds" if start > chosen else ""


def _rounds(count: int) -> str:
    return "1 round" if count == 1 else f"{count} rounds"


def _listed(counts: list[int]) -> str:
    return f"{', '.join(map(str, counts[:-1]))}, {_rounds(counts[-1])}".removeprefix(", ")
