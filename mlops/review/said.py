"""What people said of the attempts in the review queues of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mlflow.tracing.client import TracingClient

from mlops.review.asking import ANSWER, DESERVED, WHY, items_of, queues_of
from mlops.runs.results import ScoredRound
from mlops.tracking.answers import answering
from mlops.tracking.traces import ROLLOUT_TAG, ROUND_TAG
from mlops.use.traces import as_record
from rlft.review.full import full_totals
from rlft.review.opinions import Opinion
from rlft.tasks.use import Said
from rlft.types import Task


@dataclass(frozen=True, slots=True)
class Collected:
    """What came of the queues of a run: opinions, how many attempts are still waiting, and what could not be read."""

    queues: int
    opinions: list[Opinion]
    waiting: int
    unread: list[str]


def collect(
    address: str, experiment_id: str, run: str, load: Callable[[str], ScoredRound], tasks: Mapping[str, Task]
) -> Collected:
    """Return the opinions in all review queues of a run, one for each person and attempt.

    `load` gives a round of the run by its number. An attempt that was declined has none. Raises TrackerError if MLflow
    does not answer, and what `load` raises.
    """
    rounds, opinions, unread = dict[str, ScoredRound](), list[Opinion](), list[str]()
    waiting = 0
    with answering(address):
        client = TracingClient(address)
        queues = queues_of(client, experiment_id, run)
        items = {item: state for queue in queues.values() for item, state in items_of(client, queue).items()}
        for item, state in sorted(items.items()):
            if state == "declined":
                continue
            record = as_record(client.get_trace(item))
            number = record.tags.get(ROUND_TAG, "")
            if number not in rounds:
                rounds[number] = load(number)
            said = _by_person(record.said)
            waiting += not said
            for person, words in said.items():
                try:
                    opinions.append(_opinion(person, words, record.tags.get(ROLLOUT_TAG, ""), rounds[number], tasks))
                except ValueError as wrong:
                    unread.append(f"{item}: {wrong}")
    return Collected(len(queues), opinions, waiting, unread)


def _by_person(said: tuple[Said, ...]) -> dict[str, dict[str, Any]]:
    """Return {person: {question: what was said last}} of the questions that are asked in a review."""
    found = dict[str, dict[str, Any]]()
    for each in sorted(said, key=lambda each: each.time):
        if each.name in (DESERVED, ANSWER, WHY):
            found.setdefault(each.person, {})[each.name] = each.value
    return found


def _opinion(
    person: str, words: Mapping[str, Any], rollout_id: str, scored: ScoredRound, tasks: Mapping[str, Task]
) -> Opinion:
    """Raise ValueError for an attempt that is not there any more, and for a number that is no share."""
    rollout = next((each for each in scored.rollouts if each.rollout_id == rollout_id), None)
    reward = None if rollout is None else scored.reward_of(rollout)
    if rollout is None or reward is None or scored.rewards is None or rollout.task_id not in tasks:
        raise ValueError(f"the run has no scored attempt {rollout_id!r}")
    member = scored.rewards.member_of(reward)
    return Opinion(
        person=person,
        task=tasks[rollout.task_id],
        rollout=rollout,
        reward=reward,
        full=full_totals(scored.rewards)[member],
        environment=member,
        deserved=_share(words.get(DESERVED)),
        answer=None if words.get(ANSWER) is None else str(words[ANSWER]),
        why=" ".join(str(words.get(WHY) or "").split()),
    )


def _share(value: Any) -> float | None:
    if value is None or value == "":
        return None
    try:
        share = float(value)
    except (TypeError, ValueError):
        share = math.nan
    if not 0 <= share <= 1:
        raise ValueError(f"{DESERVED} is {value!r:.60}, no share from 0 to 1")
    return share
