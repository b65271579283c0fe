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
    """Yield the verdict as a headline, what must be read with it, and what explains it.

    The headline is the first, as MLflow shows the first lines of a description alone until somebody asks for more.
    """
    yield Headline(headline(summary))
    yield from _cautions(verdict.cautions(summary))
    yield from verdict.explanation(summary)


def _cautions(sentences: Iterable[str]) -> Iterator[Caution]:
    return map(Caution, sentences)
