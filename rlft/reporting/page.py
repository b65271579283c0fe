"""Writes the page of a run: what came of it, its curves, attempts of the trained policy, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from rlft.reporting.plots import Points, draw_curves, draw_validation
from rlft.reporting.template import cut, open_template
from rlft.texts.blocks import Block, Table
from rlft.texts.characters import visible
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
class Attempt:
    """An attempt of the trained policy: the last message of the prompt, its last answer, and what that earned.

    `right` is the right answer of the task, if it has one.
    """

    task_id: str
    prompt: str
    answer: str
    total: float
    parts: Mapping[str, float | None]
    stop_reason: str
    right: str | None = None


@dataclass(frozen=True, slots=True)
class ReportFacts:
    """What is known of a run.

    `about` says in sentences what it is of, for somebody who has not seen it: model, environment, tasks and date.
    `verdict` is what came of it, `rounds` are its reports, and `validations` those by the number of rounds before.
    `metric` chose the best round, which is `best_round`. `ledger` and `seconds` count rollouts by their fate, and wall
    time by stage. `best` and `worst` are attempts at `test`. `audit` has the lines of the reward's audit, `caveats`
    what is missing here, `lineage` names with their values, `config` is YAML, and `commands` do the run again.
    `code` names the versions that made it, if they are noted.
    """

    name: str
    verdict: Sequence[Block]
    metric: str
    rounds: Sequence[TrainReport] = ()
    validations: Mapping[int, EvaluationReport] = field(default_factory=dict)
    best_round: int | None = None
    ledger: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    best: Sequence[Attempt] = ()
    worst: Sequence[Attempt] = ()
    audit: Sequence[str] = ()
    lineage: Sequence[tuple[str, str]] = ()
    config: str = ""
    commands: Sequence[str] = ()
    about: Sequence[str] = ()
    code: str = ""


@dataclass(frozen=True, slots=True)
class _Figure:
    title: str
    svg: str
    caption: str


def make_page(facts: ReportFacts) -> str:
    """Return the page as HTML. Whatever models, tasks and users wrote is shown as text; no part of it can run."""
    examples = [("best", "The best attempts", facts.best), ("worst", "The worst attempts", facts.worst)]
    return open_template("page.html.j2").render(
        facts=facts,
        metric=_METRICS.get(facts.metric, ""),
        verdict=[{"kind": type(block).__name__, "value": block} for block in facts.verdict],
        figures=list(_figures(facts)),
        ledger=Table("", ("fate", "attempts"), tuple((name, f"{count:,}") for name, count in facts.ledger.items())),
        time=Table("", ("stage", "seconds"), tuple((name, f"{each:,.1f}") for name, each in facts.seconds.items())),
        examples=[each for each in examples if each[2]],
        prose=_prose,
        cut=cut,
    )


def _prose(text: str) -> Markup:
    """Return a text with what stands between backticks as code."""
    pieces = visible(text).split("`")
    if len(pieces) % 2 == 0:  # one has no counterpart
        pieces = [visible(text)]
    marked = (Markup("<code>{}</code>") if number % 2 else Markup("{}") for number in range(len(pieces)))
    return Markup("").join(each.format(piece) for each, piece in zip(marked, pieces, strict=True))


def _figures(facts: ReportFacts) -> Iterator[_Figure]:
    if any(facts.metric in report.metrics for report in facts.validations.values()):
        yield _Figure(
            "Validation",
            draw_validation(facts.validations, facts.metric, facts.best_round),
            "On tasks that are not trained on, with 95 % intervals over groups of tasks. The result above is of other "
            "tasks, as the best of several is too good where it was chosen.",
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
