"""What came of a run as blocks of sentences and tables, in the order in which they are read."""

from __future__ import annotations

from collections.abc import Iterator

from mlops.runs import verdict
from mlops.runs.summary import Summary
from rlft.blocks import Block, Bullets, Headline


def blocks(summary: Summary) -> Iterator[Block]:
    """Yield the headline, what explains it, the comparisons, the decision and its reasons, and what it took."""
    yield Headline(verdict.HEADLINES[summary.status])
    yield from verdict.explanation(summary)
    yield from verdict.warnings_before(summary)
    if summary.difference:
        yield verdict.arms_table(summary, summary.difference.metric)
    yield from verdict.comparisons(summary)
    yield from verdict.caveats(summary)
    if len(summary.differences) > 1:
        yield verdict.parts_table(summary.differences)
    registered, *reasons = verdict.registration(summary) or [""]
    if registered:
        yield Bullets(registered, tuple(reasons))
    yield from verdict.shortcomings(summary)
    yield verdict.effort(summary)
