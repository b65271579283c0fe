"""How many different answers a policy gives. One that has collapsed gives the same few to nearly every task."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from rlft.types import EvaluationReport, Reward, Rollout, Task
from rlft.types.thinking import answer_of

COVERED = 0.95  # the share of attempts that counted answers make up: the rest may be slips
COLLAPSED = 5  # a policy has collapsed with fewer than one in so many of the answers that are needed
MOST_FREQUENT = 5  # completions that a report keeps
_LONGEST = 2000  # characters of a completion that a report keeps


def variety(counts: Iterable[int]) -> int:
    """Return how many different answers, the most frequent first, make up 95 % of all; 0 without answers.

    `counts` holds how often each answer was given.
    """
    ordered = sorted(counts, reverse=True)
    left, needed = sum(ordered) * COVERED - 1e-9, 0
    for count in ordered:
        if left <= 0:
            break
        left -= count
        needed += 1
    return needed


def answers_given(attempts: Sequence[tuple[Rollout, Reward]]) -> tuple[int, dict[str, int]]:
    """Return the variety of the answers of attempts, and {completion: how often its answer was given}.

    The answer is what `final_answer` found, else the text of the last message. Of each of the `MOST_FREQUENT` answers
    the shortest completion that gave it stands for all; ties are broken by the text, and long ones are left out.
    """
    texts: dict[str, list[str]] = defaultdict(list)
    for rollout, reward in attempts:
        texts[_answer(rollout, reward)].append(answer_of(rollout.messages))
    shortest = {min(said, key=lambda text: (len(text), text)): len(said) for said in texts.values()}
    kept = sorted((each for each in shortest.items() if len(each[0]) <= _LONGEST), key=lambda each: (-each[1], each[0]))
    return variety(map(len, texts.values())), dict(kept[:MOST_FREQUENT])


def answer_counts(attempts: Iterable[tuple[Rollout, Reward]]) -> Counter[str]:
    """Return how often each answer was given, as `answers_given` takes it."""
    return Counter(_answer(rollout, reward) for rollout, reward in attempts)


def solved_answers(attempts: Iterable[tuple[Rollout, Reward]]) -> int:
    """Return the variety of the answers with which attempts solved their tasks."""
    return variety(answer_counts(each for each in attempts if each[1].solved).values())


def _answer(rollout: Rollout, reward: Reward) -> str:
    return answer_of(rollout.messages) if reward.answer is None else reward.answer


def right_answers(tasks: Iterable[Task]) -> int | None:
    """Return the variety of the right answers of tasks; `None` if a task has none."""
    answers = [task.answer for task in tasks]
    if not answers or any(answer is None for answer in answers):
        return None
    return variety(Counter(json.dumps(answer, sort_keys=True, default=str) for answer in answers).values())


def collapse(report: EvaluationReport, start: EvaluationReport) -> str | None:
    """Return in a sentence that the policy of `report` gives only a few answers; `None` if it does not.

    Few are less than a fifth of the right answers, if the policy of `start` gave as many: tasks with two labels have
    two answers. Where tasks have a check and no answer, those with which the policy of `start` solved some stand in for
    the right ones; if it solved none, nothing is said.
    """
    right = start.solved_answers if report.right_answers is None else report.right_answers
    if not report.answers or report.answers * COLLAPSED >= min(right, start.answers):
        return None
    said = "one answer makes" if report.answers == 1 else f"{report.answers} answers make"
    made_up = f"{said} up {COVERED:.0%} of its attempts on {report.split}"
    solved = f"the model it started from solved tasks with {right} and"
    known = solved if report.right_answers is None else f"the right answers are {right} and the model it started from"
    return f"its answers have collapsed: {made_up}, while {known} gave {start.answers}"


def named(frequent: Mapping[str, int]) -> str:
    """Return the most frequent answers of a report as a person reads them, with how often each was given."""
    shown = sorted(frequent.items(), key=lambda each: (-each[1], each[0]))[:3]
    return ", ".join(f"{text[:40]!r} ({count})" for text, count in shown)
