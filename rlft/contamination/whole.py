"""Finds the tasks in which the whole of another one stands: a question of few words within a longer one.

`find_contamination` looks the other way: for an evaluation task, or a part of it, within what was trained on. Of 13
words and more both find the same, as that many in a row are shared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rlft.contamination.common import common_runs, pieces
from rlft.contamination.overlap import RUN, looked_for
from rlft.contamination.texts import Text, text_of_task
from rlft.types import Task


def find_whole(tasks: Sequence[Task], others: Sequence[Task], *, shortest: int) -> dict[str, str]:
    """Return {id of a task: id of one of `others` that stands in it, with less than 13 and at least `shortest` words}.

    Of a longer one those pieces count, of 8 words and more, that are left without what is common to many of `others`.
    The words of a conversation are compared wherever a message ends.
    """
    texts = [text_of_task(task) for task in others]
    common = common_runs(texts, [])
    index = defaultdict[int, dict[tuple[str, ...], str]](dict)  # by the number of words
    for text in texts:
        for piece in _wholes(text, common):
            if len(piece) >= shortest:
                index[len(piece)].setdefault(tuple(piece), text.id)
    found = dict[str, str]()
    for task in tasks:
        said = _joined(text_of_task(task))
        for length, known in index.items():
            places = range(len(said) - length + 1)
            other = next((known[run] for at in places if (run := tuple(said[at : at + length])) in known), None)
            if other is not None:
                found[task.id] = other
                break
    return found


def _wholes(text: Text, common: set[int]) -> list[list[str]]:
    whole = _joined(text)
    if len(whole) < RUN:
        return [whole] if whole else []
    return [piece for piece, length in looked_for(pieces(text, common)) if length < RUN]


def _joined(text: Text) -> list[str]:
    return [word for part in text.parts for word in part]
