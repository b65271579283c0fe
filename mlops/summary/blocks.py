"""What came of a run as blocks, in the one order in which they are told, wherever that is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mlops.summary import verdict
from mlops.summary.headline import headline
from mlops.summary.summary import Summary
from rlft.blocks import Block, Bullets, Caution, Headline


def blocks(summary: Summary) -> Iterator[Block]:
    """Yield the results of a run, the decision and its reasons, what was lost on the way, and what it took."""
    yield from results(summary)
    registered, *reasons = verdict.registration(summary) or [""]
    if registered:
        yield Bullets(registered, tuple(reasons))
    yield from _cautions(verdict.shortcomings(summary))
    yield verdict.effort(summary)
    if asked := verdict.judges_effort(summary):
        yield asked


def results(summary: Summary) -> Iterator[Block]:
    """Yield the verdict, the comparisons with other models, and what stands beside them."""
    yield from lead(summary)
    if summary.difference:
        yield verdict.arms_table(summary, summary.difference.metric)
    yield from verdict.comparisons(summary)
    yield from _cautions(verdict.caveats(summary))
    if len(summary.differences) > 1:  # a single part is the reward itself
        yield verdict.parts_table(summary.differences)


def lead(summary: Summary) -> Iterator[Block]:
    """Yield what must be read before the verdict, the verdict as a headline, and what explains it."""
    yield from _cautions(verdict.warnings_before(summary))
    yield Headline(headline(summary))
    yield from verdict.explanation(summary)


def _cautions(sentences: Iterable[str]) -> Iterator[Caution]:
    return map(Caution, sentences)
