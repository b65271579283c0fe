"""Finds the evaluation tasks whose prompt is, or overlaps with, that of a train task or a demonstration.

The definition is that of Brown et al. 2020 (arXiv:2005.14165, appendix C) but for what is common to many texts; where
it differs, and why, stands in docs/guide/contamination.md. The time grows with the length of all texts together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rlft.contamination.common import common_runs, pieces
from rlft.contamination.texts import Source, Text, text_of_task
from rlft.contamination.words import runs
from rlft.types import Report, Split, Task, TaskSet

RUN = 13
"""Words in a row that make an overlap."""
SHORTEST = 8
"""A shorter piece of text is not looked for within others, as few words are found in other texts by chance."""
_SHOWN = 40  # of the overlapping words, and no more characters than would make as many long words
Kind = Literal["exact", "overlapping"]


@dataclass(frozen=True, slots=True)
class Overlap:
    """Says what was found of an evaluation task.

    `exact`: the other has the same words in its prompt, or asks the same question in another template. `overlapping`:
    they share `count` words in a row, of which `words` are the first 40. `other` is the id of the train task, or the
    place of the demonstration.
    """

    kind: Kind
    source: Source
    other: str
    words: str
    count: int


@dataclass(frozen=True, slots=True)
class ContaminationReport(Report):
    """Says which evaluation tasks are not new to a model that was trained.

    `splits` are the ids of the tasks that were looked at, by split, and `found` is what was found of some of them, by
    id: tasks that are not in it are clean. `compared` counts the texts of each source they were compared with, and
    `common` the runs of words that were left out because many texts have them.
    """

    splits: dict[str, tuple[str, ...]]
    found: dict[str, Overlap]
    compared: dict[str, int]
    common: int = 0

    def counts(self, split: str) -> dict[str, int]:
        """Return how many tasks of a split are `clean`, `exact` and `overlapping`, and how many there are: `tasks`."""
        ids = self.splits.get(split, ())
        kinds = Counter(self.found[task].kind for task in ids if task in self.found)
        exact, overlapping = kinds["exact"], kinds["overlapping"]
        return {
            "tasks": len(ids),
            "clean": len(ids) - exact - overlapping,
            "exact": exact,
            "overlapping": overlapping,
        }


@dataclass(slots=True)
class _Index:
    """Holds the runs to look for, by their lengths, and where each was first seen: text, piece and place in it."""

    wanted: dict[int, set[int]] = field(default_factory=dict)
    seen: dict[int, dict[int, tuple[int, int, int]]] = field(default_factory=dict)

    def want(self, piece: Sequence[str], length: int) -> None:
        self.wanted.setdefault(length, set()).update(runs(piece, length))

    def note(self, number: int, found: Sequence[Sequence[str]]) -> None:
        for length, wanted in self.wanted.items():
            seen = self.seen.setdefault(length, {})
            for which, piece in enumerate(found):
                for place, each in enumerate(runs(piece, length)):
                    if each in wanted and each not in seen:
                        seen[each] = number, which, place


def find_contamination(
    evaluated: Mapping[str, Sequence[Task]], train: Sequence[Task], demonstrations: Sequence[Text] = ()
) -> ContaminationReport:
    """Compare evaluation tasks, by split, with train tasks and demonstrations (`texts.text_of_demonstration`).

    Only prompts are compared, with prompts and all that demonstrations hold. Where a task overlaps with several texts
    the longest run of words counts among those that are the first to have any of its runs; the same prompt counts
    before all overlaps.
    """
    asked = {task.id: text_of_task(task) for tasks in evaluated.values() for task in tasks}
    sources = ([text_of_task(task) for task in train], list(demonstrations))
    others = [text for texts in sources for text in texts]
    common = common_runs(list(asked.values()), sources)
    rest = {id: pieces(text, common) for id, text in asked.items()}
    index = _Index()
    for found in rest.values():
        for piece, length in looked_for(found):
            index.want(piece, length)
    left = [pieces(text, common) for text in others]
    for number, found in enumerate(left):
        index.note(number, found)
    prompts = {text.prompt: text for text in reversed(others) if text.prompt}  # the first of equal ones stays
    questions = {text.question: text for text in reversed(others)}
    result = dict[str, Overlap]()
    for id, text in asked.items():
        same = prompts.get(text.prompt) or questions.get(text.question)
        if same is not None:
            result[id] = _overlap("exact", same, [word for part in rest[id] or text.parts for word in part])
        elif longest := _longest(rest[id], index, left):
            result[id] = _overlap("overlapping", others[longest[0]], longest[1])
    return ContaminationReport(
        splits={split: tuple(task.id for task in tasks) for split, tasks in evaluated.items()},
        found=result,
        compared={"train": len(train), "demonstrations": len(demonstrations)},
        common=len(common),
    )


def compare_splits(tasks: TaskSet, splits: Sequence[Split], demonstrations: Sequence[Text] = ()) -> ContaminationReport:
    """Compare the tasks of these splits with the train tasks of the same set, and with demonstrations."""
    return find_contamination({name: tasks.split(name) for name in splits}, tasks.split("train"), demonstrations)


def looked_for(rest: Sequence[list[str]]) -> list[tuple[list[str], int]]:
    """Return the pieces of a text that are looked for, and the length of the runs that make an overlap with each."""
    if long := [piece for piece in rest if len(piece) >= RUN]:
        return [(piece, RUN) for piece in long]
    return [(piece, len(piece)) for piece in rest if len(piece) >= SHORTEST]


def _longest(
    rest: Sequence[list[str]], index: _Index, left: Sequence[Sequence[list[str]]]
) -> tuple[int, list[str]] | None:
    """Return the number of the text that shares the longest run of words with a task, and these words."""
    best: tuple[int, list[str]] | None = None
    for piece, length in looked_for(rest):
        seen, starts, place = index.seen.get(length, {}), runs(piece, length), 0
        while place < len(starts):
            count = 0
            if (first := seen.get(starts[place])) is not None:
                number, which, there = first
                count = _equal(piece, place, left[number][which], there)
                if count >= length and (best is None or count > len(best[1])):
                    best = number, piece[place : place + count]
            place += max(1, count - length + 1)  # the run that begins one word after has the same end
    return best


def _equal(ours: Sequence[str], place: int, theirs: Sequence[str], there: int) -> int:
    """Return how many words are the same from these places on."""
    most = min(len(ours) - place, len(theirs) - there)
    return next((count for count in range(most) if ours[place + count] != theirs[there + count]), most)


def _overlap(kind: Kind, other: Text, found: Sequence[str]) -> Overlap:
    return Overlap(kind, other.source, other.id, " ".join(found[:_SHOWN])[: 10 * _SHOWN], len(found))
