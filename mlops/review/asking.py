"""Puts attempts of a run into a review queue of MLflow, with the questions that people answer about each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.genai.label_schemas import InputNumeric, InputText
from mlflow.tracing.client import TracingClient

from mlops.runs.results import ScoredRound
from mlops.tracking.answers import answering
from mlops.tracking.spans import trace_id
from mlops.tracking.traces import log_rollout_traces, trace_key
from rlft.errors import TrackerError
from rlft.review.choosing import Chosen
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
    with answering(address):
        stored = log_rollout_traces(address, experiment_id, run_id, rollouts, scored.rewards, tasks, number)
        if stored < len(rollouts):
            raise TrackerError(f"MLflow has taken {stored} of {len(rollouts)} attempts", where=address)
        client = TracingClient(address)
        # MLflow shows the newest question first.
        schemas = [_question(client, experiment_id, name) for name in (WHY, ANSWER, DESERVED)]
        found = _queue(client, experiment_id, queue, list(reviewers), schemas)
        there = items_of(client, found)
        ids = {trace_id(trace_key(run_id, each.rollout)): each.reason for each in chosen}
        new = [each for each in ids if each not in there]
        for each in new:
            MlflowClient(tracking_uri=address).set_trace_tag(each, REASON_TAG, ids[each])
        if new:
            client._add_items_to_review_queue(found, item_ids=new)
        return Asked(queue, len(there) + len(new), len(new))


def items_of(client: TracingClient, queue_id: str) -> dict[str, str]:
    """Return {trace id: state} of what is in a queue; states are `pending`, `complete` and `declined`."""
    found, token = dict[str, str](), None
    while True:
        page = client._list_review_queue_items(queue_id, max_results=100, page_token=token)
        found |= {item.item_id: str(item.status.value) for item in page}
        token = page.token
        if not token:
            return found


def queues_of(client: TracingClient, experiment_id: str, run: str) -> dict[str, str]:
    """Return {name: id} of the review queues of a run in an experiment."""
    found, token = dict[str, str](), None
    while True:
        page = client._list_review_queues(experiment_id, max_results=100, page_token=token)
        found |= {queue.name: queue.queue_id for queue in page if queue.name.rpartition(" ")[0] == run}
        token = page.token
        if not token:
            return found


def _question(client: TracingClient, experiment_id: str, name: str) -> str:
    """Return the id of a question of the experiment, which is made if it is not there."""
    try:
        return str(client._get_label_schema_by_name(experiment_id, name).schema_id)
    except MlflowException as cause:
        if cause.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
    kind = "expectation" if name == ANSWER else "feedback"
    asked = InputNumeric(min_value=0.0, max_value=1.0) if name == DESERVED else InputText(max_length=2000)
    made = client._create_label_schema(
        experiment_id, name=name, type=kind, input=asked, instruction=_INSTRUCTION[name], enable_comment=False
    )
    return str(made.schema_id)


def _queue(client: TracingClient, experiment_id: str, name: str, users: list[str], schemas: list[str]) -> str:
    """Return the id of a queue, which is made if it is not there; the users are added to those that it has."""
    try:
        found = client._get_review_queue_by_name(experiment_id, name)
    except MlflowException as cause:
        if cause.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        made = client._create_review_queue(
            experiment_id, name=name, queue_type="custom", users=users, schema_ids=schemas
        )
        return made.queue_id
    if more := [user for user in users if user not in found.users]:
        client._update_review_queue(found.queue_id, users=[*found.users, *more])
    return found.queue_id
