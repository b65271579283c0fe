"""The result of a run as MLflow shows it first: a few metrics whose names sort before all others, and a description."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mlops.runs.blocks import blocks
from mlops.runs.sections import Difference
from mlops.runs.summary import Summary
from rlft.report.facts import Bullets, Headline, Table
from rlft.visible import visible

PREFIX = "0_result"  # a digit sorts before all letters, so that these metrics head every list and table of MLflow
# What Markdown and HTML would take as theirs. What a model wrote stands in the sentences.
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|!~&$])")


def result_metrics(summary: Summary, gpus: int) -> dict[str, float]:
    """Return the result with its intervals, and what the run took, as metrics under `0_result/`.

    `test/<metric>` is the trained model's mean, `_before` that of the model that training started from, `_gain` their
    difference, and `_over_control` the trained model minus the best control; `_low` and `_high` are the ends of 95 %
    intervals. `gpus` is how many GPUs the run had. Of a run that trained nothing there is only what it took.
    """
    found: dict[str, float] = {}
    if (change := summary.difference) is not None:
        name = f"test/{change.metric}"
        found |= {name: change.after, f"{name}_before": change.before, **_ends(f"{name}_gain", change)}
        if (best := best_control(summary)) is not None:
            found |= _ends(f"{name}_over_control", best)
    if summary.baseline is not None and summary.status in ("too_hard", "already_solved"):
        found["baseline/frac_tasks_with_variance"] = summary.baseline.frac_tasks_with_variance
    found["cost/seconds"] = summary.seconds.total
    found["cost/gpu_hours"] = gpus * summary.seconds.total / 3600
    found["cost/rollouts"] = float(summary.ledger.sampled)
    if summary.disk_megabytes is not None:
        found["cost/disk_megabytes"] = summary.disk_megabytes
    return {f"{PREFIX}/{name}": value for name, value in found.items()}


def best_control(summary: Summary) -> Difference | None:
    """Return the trained model minus the control with the highest mean; `None` if no control has a score."""
    scored = [change for change in summary.difference_controls.values() if change is not None]
    return max(scored, key=lambda change: change.before, default=None)


def _ends(name: str, change: Difference) -> dict[str, float]:
    return {name: change.mean, f"{name}_low": change.ci_low, f"{name}_high": change.ci_high}


def description(summary: Summary, name: str, note: str = "") -> str:
    """Return what came of a run in Markdown: the sentences and tables that the terminal shows, and the user's note.

    `name` is that of the run, as `rlft show` takes it. The note is the user's own Markdown; all else is escaped.
    """
    return "\n\n".join(
        [*_paragraphs(summary), f"`rlft show {name}` shows its conversations.", *([note] if note else [])]
    )


def _paragraphs(summary: Summary) -> Iterator[str]:
    for block in blocks(summary):
        match block:
            case Headline(text):
                yield f"**{plain(text)}**"
            case Bullets(text, items):
                yield "\n".join([plain(text), *(f"- {plain(item)}" for item in items)])
            case Table():
                yield _table(block)
            case _:
                yield plain(block)


def _table(table: Table) -> str:
    """Return a table in the Markdown of GitHub, which MLflow renders."""
    rows = [table.columns, ("---",) * len(table.columns), *table.rows]
    lines = [f"| {' | '.join(cell if row is rows[1] else plain(cell) for cell in row)} |" for row in rows]
    return "\n".join([f"{plain(table.title)}:", "", *lines])


def plain(text: str) -> str:
    """Return a text that Markdown shows as it is, in one line."""
    return _MARKUP.sub(r"\\\1", " ".join(visible(text).split()))
