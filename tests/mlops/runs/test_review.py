"""Attempts in a real review queue of MLflow, and what people said of them."""

from __future__ import annotations

import mlflow
import pytest
from mlflow import MlflowClient
from mlflow.entities import AssessmentSource, Expectation, Feedback
from mlflow.genai.label_schemas import get_label_schema
from mlflow.genai.review_queues import get_review_queue, set_review_queue_item_status

from mlops.runs.results import ScoredRound
from mlops.runs.review import ANSWER, DESERVED, REASON_TAG, WHY, ask_people, collect, items_of, queues_of
from mlops.tracking.address import as_default
from rlft.errors import TrackerError
from rlft.rewards.review import by_environment, choose
from rlft.types import Reward, Rewards, Rollouts
from tests.mlflow_stores import new_store
from tests.rlft.attempts import answered, make_task

TASK = make_task("peru", "The capital of Peru?", "Limma")
ROLLOUTS = answered(TASK, "Lima", "Cusco", "Rome")
REWARDS = Rewards(
    tuple(
        Reward(each.rollout_id, "peru", total, {"right": total}, total == 2, None, None, 0.0)
        for each, total in zip(ROLLOUTS, (0.0, 1.0, 2.0), strict=True)
    ),
    {"right": 2.0},
    ranges={"reward": (0.0, 2.0)},
)
SCORED = ScoredRound("r000", ROLLOUTS, REWARDS, {})


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> MlflowClient:
    """One database for all tests of this file: making one takes seconds."""
    folder = tmp_path_factory.mktemp("reviewed")
    return MlflowClient(tracking_uri=new_store(folder))


@pytest.fixture
def asked(store, request, tmp_path):
    """A function that asks people about all attempts of a run, and the addresses of what it asks about."""
    experiment = store.create_experiment(request.node.name, artifact_location=str(tmp_path))
    where = store.tracking_uri, experiment, store.create_run(experiment).info.run_id

    def ask(**counts):
        chosen = choose(ROLLOUTS, REWARDS, **{"highest": 1, "random": 2, **counts})
        return ask_people(*where, "mine r000", chosen, SCORED, {"peru": TASK}, ["ann"])

    ask.where = where
    return ask


def traces(store, experiment):
    return {trace.info.tags["rlft.rollout_id"]: trace.info for trace in store.search_traces(locations=[experiment])}


def say(store, trace_id, name, value, person="ann"):
    kind = Expectation if name == ANSWER else Feedback
    source = AssessmentSource(source_type="HUMAN", source_id=person)
    with as_default(store.tracking_uri):
        mlflow.log_assessment(trace_id, kind(name=name, value=value, source=source))


def test_attempts_are_asked_about_once_with_the_reason_that_they_were_chosen_for(store, asked):
    first = asked()
    again = asked(highest=3)
    assert (first.items, first.added) == (3, 3)
    assert (again.items, again.added) == (3, 0)
    address, experiment, run = asked.where
    with as_default(address):
        [queue] = queues_of(experiment, "mine").values()
        assert queues_of(experiment, "min") == {}
        assert set(items_of(queue).values()) == {"pending"}
        found = get_review_queue(queue)
        names = [get_label_schema(schema_id=each).name for each in found.schema_ids]
    assert sorted(names) == sorted([DESERVED, ANSWER, WHY])
    assert found.users == ["ann"]
    shown = traces(store, experiment)
    assert shown["peru/2"].tags[REASON_TAG] == "highest"  # it is paid 2
    assert {info.trace_metadata["mlflow.sourceRun"] for info in shown.values()} == {run}


def test_what_people_said_is_read_for_each_of_them_and_the_last_word_counts(store, asked):
    asked()
    address, experiment, _ = asked.where
    shown = {name: info.trace_id for name, info in traces(store, experiment).items()}
    say(store, shown["peru/0"], DESERVED, 0.5)
    say(store, shown["peru/0"], DESERVED, 1.0)
    say(store, shown["peru/0"], ANSWER, "Lima")
    say(store, shown["peru/0"], WHY, "It is\nright.")
    say(store, shown["peru/0"], DESERVED, 0.8, person="bob")
    say(store, shown["peru/1"], DESERVED, 7)
    say(store, shown["peru/1"], "mood", "good", person="bob")
    found = collect(address, experiment, "mine", lambda number: {"0": SCORED}[number], {"peru": TASK})
    ann, bob = sorted(found.opinions, key=lambda each: each.person)
    assert (ann.person, ann.deserved, ann.answer, ann.why) == ("ann", 1.0, "Lima", "It is right.")
    assert (ann.text, ann.prompt, ann.full, ann.reward.total) == ("Lima", "The capital of Peru?", 2.0, 0.0)
    assert (bob.person, bob.deserved, bob.answer) == ("bob", 0.8, None)
    assert found.waiting == 1  # nobody has said anything of the third
    [wrong] = found.unread
    assert "deserved is 7" in wrong
    assert collect(address, experiment, "other", lambda number: SCORED, {}).queues == 0


def test_what_was_declined_or_is_gone_is_no_opinion(store, asked):
    asked()
    address, experiment, _ = asked.where
    shown = {name: info.trace_id for name, info in traces(store, experiment).items()}
    for trace in shown.values():
        say(store, trace, DESERVED, 1.0)
    with as_default(address):
        [queue] = queues_of(experiment, "mine").values()
        set_review_queue_item_status(queue, item_id=shown["peru/0"], status="declined", completed_by="ann")
    left = ScoredRound("r000", Rollouts(ROLLOUTS.rows[:2]), REWARDS, {})
    found = collect(address, experiment, "mine", lambda number: left, {"peru": TASK})
    assert [each.rollout.rollout_id for each in found.opinions] == ["peru/1"]
    assert [each.partition(": ")[2] for each in found.unread] == ["the run has no scored attempt 'peru/2'"]


def test_of_several_environments_each_has_its_own_full_reward(store, asked):
    sums, words = make_task("sums/1", "1+1", "2"), make_task("words/1", "a", "a")
    rollouts = Rollouts((*answered(sums, "2", "3"), *answered(words, "a")))
    totals = (5.0, 1.0, 0.5)
    rows = tuple(
        Reward(each.rollout_id, each.task_id, total, {}, False, None, None, 0.0)
        for each, total in zip(rollouts, totals, strict=True)
    )
    ranges = {"reward": (0.0, 10.0), "reward/sums": (0.0, 10.0), "reward/words": (0.0, 0.5)}
    rewards = Rewards(rows, {}, ranges=ranges, members=("sums", "words"))
    scored, tasks = ScoredRound("r000", rollouts, rewards, {}), {"sums/1": sums, "words/1": words}
    chosen = choose(rollouts, rewards, highest=2, random=0)
    assert [each.rollout.task_id for each in chosen] == ["words/1", "sums/1"]  # all of the one, a half of the other
    ask_people(*asked.where, "both r000", chosen, scored, tasks)
    for name, info in traces(store, asked.where[1]).items():
        say(store, info.trace_id, DESERVED, 1.0 if name.startswith("sums") else 0.0)
    found = collect(*asked.where[:2], "both", lambda number: scored, tasks)
    said = {each.environment: (each.full, each.deserved) for each in found.opinions}
    assert said == {"sums": (10.0, 1.0), "words": (0.5, 0.0)}
    # Each is written into the folder of its environment.
    assert {name: len(each) for name, each in by_environment(found.opinions).items()} == {"sums": 1, "words": 1}


def test_an_mlflow_that_is_away_is_an_error():
    chosen = choose(ROLLOUTS, REWARDS, highest=1, random=0)
    with pytest.raises(TrackerError):
        ask_people("http://127.0.0.1:9", "0", "r", "mine r000", chosen, SCORED, {"peru": TASK})
