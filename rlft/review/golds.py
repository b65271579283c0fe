"""Right answers that people gave, as rows of tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from rlft.review.opinions import Opinion


def golds(opinions: Iterable[Opinion]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a row for each task whose answer people gave: `id`, `prompt`, `answer`, and `was`, what it is in the data.

    Of several answers the most frequent one counts; where it is the one in the data there is no row. Also returns the
    ids of tasks without a row, since as many people gave one answer as another.
    """
    said, tasks = dict[str, Counter[str]](), {}
    for opinion in opinions:
        if opinion.answer is not None and (answer := opinion.answer.strip()):
            said.setdefault(opinion.task.id, Counter())[answer] += 1
            tasks[opinion.task.id] = opinion.task
    rows, split = list[dict[str, Any]](), list[str]()
    for task_id, answers in sorted(said.items()):
        (answer, most), *others = answers.most_common()
        if others and others[0][1] == most:
            split.append(task_id)
            continue
        task = tasks[task_id]
        if answer == str(task.answer).strip():
            continue
        rows.append({"id": task_id, "prompt": task.text, "answer": answer, "was": task.answer, "people": most})
    return rows, split
