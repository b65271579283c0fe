"""Attempts of a run in MLflow's review queue: people are asked about each, and what they said is read back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.genai.label_schemas import InputNumeric, InputText, create_label_schema, get_label_schema
from mlflow.genai.review_queues import (
    add_items_to_review_queue,
    create_review_queue,
    get_review_queue,
    list_review_queue_items,
    list_review_queues,
    update_review_queue,
)

from mlops.runs.results import ScoredRound
from mlops.runs.use import record_of_trace
from mlops.tracking.address import answering, as_default, pages
from mlops.tracking.traces import ROLLOUT_TAG, ROUND_TAG, log_rollouts, trace_id, trace_key
from rlft.errors import TrackerError
from rlft.rewards.review import Chosen, Opinion, full_totals
from rlft.tasks.use import Said
from rlft.types import Task

DESERVED, ANSWER, WHY = "deserved", "right answer", "why"
REASON_TAG = "rlft.review"
_INSTRUCTION = {
    DESERVED: "What share of the full reward does this attempt deserve? 0 is nothing, 1 is all of it. Do not look at "
    "the reward that it got.",
    ANSWER: "Only if the answer in the data is wrong or missing: what would be right?",
    WHY: "Why, in a sentence. It becomes the reason of a case of the reward.",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A review queue: its name, how many attempts are in it, and how many of them were put there now."""

    queue: str
    items: int
    added: int


def ask_people(
    address: str,
    experiment_id: str,
    run_id: str,
    queue: str,
    chosen: Sequence[Chosen],
    scored: ScoredRound,
    tasks: Mapping[str, Task],
    reviewers: Sequence[str] = (),
) -> Asked:
    """Store chosen attempts as traces of an MLflow run, and put them into a review queue of this name.

    What is there already stays as it is, so that asking again adds nothing. `reviewers` are names of users of MLflow.
    Raises TrackerError if MLflow does not answer, or does not take them.
    """
    assert scored.rewards is not None
    rollouts = [each.rollout for each in chosen]
    number = rollouts[0].round if rollouts else 0
    with answering(address), as_default(address):
        tags = {ROUND_TAG: str(number)}
        stored = log_rollouts(address, experiment_id, run_id, rollouts, scored.rewards, tasks, tags)
        if stored < len(rollouts):
            raise TrackerError(f"MLflow has taken {stored} of {len(rollouts)} attempts", where=address)
        # MLflow shows the newest question first.
        schemas = [_question(experiment_id, name) for name in (WHY, ANSWER, DESERVED)]
        found = _queue(experiment_id, queue, list(reviewers), schemas)
        there = items_of(found)
        ids = {trace_id(trace_key(run_id, each.rollout)): each.reason for each in chosen}
        new = [each for each in ids if each not in there]
        for each in new:
            MlflowClient(tracking_uri=address).set_trace_tag(each, REASON_TAG, ids[each])
        if new:
            add_items_to_review_queue(found, item_ids=new)
        return Asked(queue, len(there) + len(new), len(new))


def items_of(queue_id: str) -> dict[str, str]:
    """Return {trace id: state} of what is in a queue; states are `pending`, `complete` and `declined`.

    It is asked at MLflow's default address, as `queues_of` does.
    """
    items = pages(partial(list_review_queue_items, queue_id, max_results=100))
    return {item.item_id: str(item.status.value) for item in items}


def queues_of(experiment_id: str, run: str) -> dict[str, str]:
    """Return {name: id} of the review queues of a run in an experiment."""
    queues = pages(partial(list_review_queues, experiment_id=experiment_id, max_results=100))
    return {queue.name: queue.queue_id for queue in queues if queue.name.rpartition(" ")[0] == run}


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
    client = MlflowClient(tracking_uri=address)
    with answering(address), as_default(address):
        queues = queues_of(experiment_id, run)
        items = {item: state for queue in queues.values() for item, state in items_of(queue).items()}
        for item, state in sorted(items.items()):
            if state == "declined":
                continue
            trace = client.get_trace(item)
            record, tags = record_of_trace(trace), trace.info.tags
            number = tags.get(ROUND_TAG, "")
            if number not in rounds:
                rounds[number] = load(number)
            said = _by_person(record.said)
            waiting += not said
            for person, words in said.items():
                try:
                    opinions.append(_opinion(person, words, tags.get(ROLLOUT_TAG, ""), rounds[number], tasks))
                except ValueError as wrong:
                    unread.append(f"{item}: {wrong}")
    return Collected(len(queues), opinions, waiting, unread)


def _question(experiment_id: str, name: str) -> str:
    """Return the id of a question of the experiment, which is made if it is not there."""
    try:
        return str(get_label_schema(name, experiment_id=experiment_id).schema_id)
    except MlflowException as cause:
        if cause.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
    kind = "expectation" if name == ANSWER else "feedback"
    asked = InputNumeric(min_value=0.0, max_value=1.0) if name == DESERVED else InputText(max_length=2000)
    made = create_label_schema(
        name, type=kind, input=asked, instruction=_INSTRUCTION[name], experiment_id=experiment_id
    )
    return str(made.schema_id)


def _queue(experiment_id: str, name: str, users: list[str], schemas: list[str]) -> str:
    """Return the id of a queue, which is made if it is not there; the users are added to those that it has."""
    try:
        found = get_review_queue(name=name, experiment_id=experiment_id)
    except MlflowException as cause:
        if cause.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        made = create_review_queue(
            name, queue_type="custom", users=users, schema_ids=schemas, experiment_id=experiment_id
        )
        return made.queue_id
    if more := [user for user in users if user not in found.users]:
        update_review_queue(found.queue_id, users=[*found.users, *more])
    return found.queue_id


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
