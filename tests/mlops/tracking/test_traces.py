import dataclasses
from typing import Any

import mlflow
import numpy as np
import pytest
from mlflow import MlflowClient

from mlops.tracking import traces
from mlops.tracking.traces import ROUND_TAG, choose_rollouts, log_rollouts, prompt_count
from rlft.messages import make_call
from rlft.outcome import Failure
from rlft.types import Rewards, Rollouts, Task, TaskSet
from tests.mlflow_stores import new_store
from tests.rlft.evaluation.test_evaluate import reward, rollout

PROMPT = ({"role": "user", "content": "What is 2 + 3?"},)
CALL = make_call("add", {"a": 2, "b": 3}, "c1")
ANSWER = (
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": "5", "tool_call_id": "c1"},
    {"role": "assistant", "content": "It is 5."},
)
SYSTEM = {"role": "system", "content": "Be brief."}
TASKS = TaskSet((Task("x", "e", PROMPT, "5", {}, "train", "g"),), "f")


def attempt(sample, error=None):
    messages = (SYSTEM, *PROMPT, *ANSWER)
    return dataclasses.replace(rollout("x", sample, error), messages=messages, seconds=2.0)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mlflow")
    client = MlflowClient(tracking_uri=new_store(folder))
    experiment = client.create_experiment("traces", artifact_location=f"file:{folder}/artifacts")
    return client, experiment


def log(store, run_id, rollouts, rewards, round=3, weights=None):
    client, experiment = store
    scored = Rewards(rewards, weights or {})
    return log_rollouts(
        client.tracking_uri, experiment, run_id, rollouts, scored, TASKS.by_id(), {ROUND_TAG: str(round)}
    )


def traces_of(store, run_id):
    client, experiment = store
    return client.search_traces(locations=[experiment], run_id=run_id)


def test_a_trace_shows_the_conversation_and_its_scores(store):
    run_id = store[0].create_run(store[1]).info.run_id
    before = mlflow.get_tracking_uri()
    parts = {"exact": 1.0, "style": None}
    assert log(store, run_id, (attempt(0),), (reward("x", 0, 1.0, parts=parts),)) == 1
    assert mlflow.get_tracking_uri() == before

    (trace,) = traces_of(store, run_id)
    assert "mlflow.trace.session" not in trace.info.trace_metadata  # attempts at one task are no turns of one talk
    assert trace.info.trace_metadata["mlflow.sourceRun"] == run_id
    assert {k: v for k, v in trace.info.tags.items() if k.startswith("rlft.")} == {
        "rlft.rollout_id": "x-0",
        "rlft.task_id": "x",
        "rlft.round": "3",
        "rlft.split": "train",
        "rlft.policy": "p",
        "rlft.turns": "1",
        "rlft.tool_calls": "0",
        "rlft.tool_errors": "0",
        "rlft.stop_reason": "stop",
    }
    assert (trace.info.state.value, trace.info.execution_duration) == ("OK", 2000)
    assert {a.name: a.feedback.value for a in trace.info.assessments} == {
        "reward": 1.0,
        "solved": True,
        "rewards/exact": 1.0,
    }
    root, first, tool, last = sorted(trace.data.spans, key=lambda s: (s.parent_id is not None, s.start_time_ns))
    assert [s.span_type for s in (root, first, tool, last)] == ["AGENT", "CHAT_MODEL", "TOOL", "CHAT_MODEL"]
    assert {s.parent_id for s in (first, tool, last)} == {root.span_id}
    assert root.inputs == {"messages": [SYSTEM, *PROMPT]}
    assert [m["role"] for m in root.outputs["messages"]] == ["assistant", "tool", "assistant"]
    shown = first.outputs["messages"][0]["tool_calls"][0]
    assert shown == {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2, "b": 3}'}}
    assert (tool.name, tool.inputs, tool.outputs) == ("add", {"a": 2, "b": 3}, "5")
    assert len(last.inputs["messages"]) == 4
    assert last.outputs == {"messages": [ANSWER[-1]]}


def twice(name, *arguments, id="c"):
    """An answer with calls of one tool; the model gave all of them the same id."""
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [make_call(name, each, id) for each in arguments],
    }


def told(content, name="add", id="c"):
    return {"role": "tool", "content": content, "name": name, "tool_call_id": id}


LONG = (
    twice("add", {"a": 1, "b": 2}, {"a": "x"}),
    told("3"),
    told("error: wrong arguments: a: no number") | {"failed": True},
    {
        "role": "assistant",
        "content": "I try.",
        "invalid_tool_calls": [{"text": "<tool_call>{broken", "error": "the call is no JSON", "position": 12}],
    },
    {"role": "tool", "content": "error: the call is no JSON", "failed": True},
    {"role": "assistant", "content": "Shall I go on?"},
    {"role": "user", "content": "Yes, please."},
    twice("say", {"text": "error: none"}),
    told("error: none", "say"),
    {"role": "assistant", "content": "5"},
)


def test_a_conversation_of_many_turns_is_read_back_turn_by_turn(store):
    run_id = store[0].create_run(store[1]).info.run_id
    # 3 tokens of prompt, 4 sampled, 2 told
    mask = np.asarray([False] * 3 + [True, True, False, False, True, True])
    many = dataclasses.replace(
        attempt(0), messages=(SYSTEM, *PROMPT, *LONG), turns=5, tool_calls=4, tool_errors=2, stop_reason="length",
        token_ids=np.arange(9, dtype=np.int32), loss_mask=mask, logprobs=np.zeros(9, np.float32), prompt_length=3,
    )  # fmt: skip
    scores = reward("x", 0, 0.75, parts={"exact": 0.5, "polite": 1.0, "calls": 4.0})
    weights = {"exact": 1.0, "polite": 0.25, "calls": 0.0}
    assert log(store, run_id, (many,), (scores,), weights=weights) == 1
    (trace,) = traces_of(store, run_id)
    root, *children = sorted(trace.data.spans, key=lambda s: (s.parent_id is not None, s.start_time_ns))
    assert {child.parent_id for child in children} == {root.span_id}
    assert [(child.span_type, child.name) for child in children] == [
        ("CHAT_MODEL", "turn 1"), ("TOOL", "add"), ("TOOL", "add"), ("CHAT_MODEL", "turn 2"), ("TOOL", "tool"),
        ("CHAT_MODEL", "turn 3"), ("CHAT_MODEL", "turn 4"), ("TOOL", "say"), ("CHAT_MODEL", "turn 5"),
    ]  # fmt: skip
    ends = [child.end_time_ns for child in children]
    assert all(child.start_time_ns >= end for child, end in zip(children[1:], ends, strict=False))
    tools = [child for child in children if child.span_type == "TOOL"]
    assert [tool.inputs for tool in tools] == [
        {"a": 1, "b": 2},
        {"a": "x"},
        {"written": "<tool_call>{>>>broken"},
        {"text": "error: none"},
    ]
    assert [tool.outputs for tool in tools] == ["3", LONG[2]["content"], LONG[4]["content"], "error: none"]
    assert [tool.status.status_code.value for tool in tools] == ["OK", "ERROR", "ERROR", "OK"]
    assert tools[1].status.description == "error: wrong arguments: a: no number"
    chats = [child for child in children if child.span_type == "CHAT_MODEL"]
    # each turn has read all that stands before it: 2 of the prompt, then 3 more for the first answer and two results
    assert [len(chat.inputs["messages"]) for chat in chats] == [2, 5, 7, 9, 11]
    assert chats[3].inputs["messages"][-1] == {"role": "user", "content": "Yes, please."}
    assert [chat.outputs["messages"][0]["content"] for chat in chats] == [
        "",
        "I try.\n<tool_call>{broken",
        "Shall I go on?",
        "",
        "5",
    ]
    assert len(root.outputs["messages"]) == len(LONG)
    known = {"role", "content", "name", "tool_calls", "tool_call_id"}  # to OpenAI's form
    assert known.issuperset(key for message in root.outputs["messages"] for key in message)
    assert trace.info.token_usage == {"input_tokens": 5, "output_tokens": 4, "total_tokens": 9}
    tags = {key: trace.info.tags[f"rlft.{key}"] for key in ("turns", "tool_calls", "tool_errors", "stop_reason")}
    assert tags == {"turns": "5", "tool_calls": "4", "tool_errors": "2", "stop_reason": "length"}
    query = f"tags.`rlft.tool_errors` != '0' AND metadata.`mlflow.sourceRun` = '{run_id}'"
    assert len(store[0].search_traces(locations=[store[1]], filter_string=query)) == 1
    found = {a.name: (a.feedback.value, (a.metadata or {}).get("weight")) for a in trace.info.assessments}
    assert found == {
        "reward": (0.75, None), "solved": (False, None), "rewards/exact": (0.5, "1"), "rewards/polite": (1.0, "0.25"),
        "rewards/calls": (4.0, "0"),
    }  # fmt: skip


def test_nothing_is_traced_twice_and_all_are_stored(store):
    run_id = store[0].create_run(store[1]).info.run_id
    rollouts = Rollouts(tuple(attempt(i) for i in range(25)))
    rewards = tuple(reward("x", i, i / 24) for i in range(25))
    assert log(store, run_id, rollouts.rows[:10], rewards) == 10
    assert log(store, run_id, rollouts, rewards) == 25
    assert log(store, run_id, rollouts, rewards) == 25
    there = traces_of(store, run_id)
    assert sorted(t.info.tags["rlft.rollout_id"] for t in there) == sorted(r.rollout_id for r in rollouts)
    assert {len(t.data.spans) for t in there} == {4}
    assert {len(t.info.assessments) for t in there} == {3}


class Listed:
    """A client that lists what it is asked to store, and fails at a trace of which it has `fails_at` before."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.requests: list[tuple[str, list[str]]] = []
        self._fails_at = fails_at

    def log_spans(self, location, spans):
        self.requests.append((f"spans of {location}", list(dict.fromkeys(span.trace_id for span in spans))))

    def start_trace(self, info):
        if self._fails_at == sum(what == "trace" for what, _ in self.requests):
            raise ConnectionError("gone")
        self.requests.append(("trace", [info.trace_id]))


def made(count):
    for sample in range(count):
        yield traces.trace_of("7", "run", attempt(sample), [], 1, {}, {})


def test_the_spans_of_many_traces_are_one_request_and_come_before_these():
    client: Any = Listed()
    ids = [each.trace_id for each in traces.store_traces(client, "7", made(25))]
    assert len(set(ids)) == 25
    spans = [(place, names) for place, (what, names) in enumerate(client.requests) if what == "spans of 7"]
    assert [len(names) for _, names in spans] == [10, 10, 5]  # 3 requests, where one for each trace would be 25
    assert [place for place, _ in spans] == [0, 11, 22]
    assert [names[0] for what, names in client.requests if what == "trace"] == ids


def test_what_is_stored_before_a_store_fails_is_counted():
    client: Any = Listed(fails_at=3)
    stored = []
    with pytest.raises(ConnectionError):
        stored.extend(traces.store_traces(client, "7", made(10)))
    assert len(stored) == 3


def test_the_same_rollout_in_another_run_is_another_trace(store):
    first, second = (store[0].create_run(store[1]).info.run_id for _ in range(2))
    for run_id in (first, second):
        assert log(store, run_id, (attempt(0),), (reward("x", 0, 1.0),)) == 1
        assert len(traces_of(store, run_id)) == 1


def test_errors_are_shown_as_errors(store):
    run_id = store[0].create_run(store[1]).info.run_id
    rollouts = (attempt(0), attempt(1, error=Failure("engine", "died")))
    assert log(store, run_id, rollouts, (reward("x", 0, None), reward("x", 1, None))) == 2
    by_id = {t.info.tags["rlft.rollout_id"]: t for t in traces_of(store, run_id)}
    assert {name: t.info.state.value for name, t in by_id.items()} == {"x-0": "OK", "x-1": "ERROR"}
    (score,) = by_id["x-0"].info.assessments
    assert (score.name, score.feedback.value, score.feedback.error.error_message) == ("reward", None, "judge: timeout")


def test_a_store_that_is_down_only_warns(caplog):
    uri = "http://u:hunter2@127.0.0.1:9"
    assert log_rollouts(uri, "1", "run", (attempt(0),), Rewards((), {}), {}, {}) == 0
    assert "were not stored as traces" in caplog.text
    ours = "".join(r.getMessage() for r in caplog.records if r.name == "mlops.tracking.traces")
    assert "hunter2" not in ours


def test_where_the_prompt_ends():
    # Two examples in the task's prompt: its assistant message is no answer of this rollout.
    few_shot = (*PROMPT, {"role": "assistant", "content": "5"}, {"role": "user", "content": "And 1 + 1?"})
    task = dataclasses.replace(TASKS.tasks[0], prompt=few_shot)
    row = dataclasses.replace(attempt(0), messages=(SYSTEM, *few_shot, *ANSWER))
    assert prompt_count(row, task) == 4
    assert prompt_count(attempt(0), None) == 2
    assert prompt_count(dataclasses.replace(attempt(0), messages=PROMPT), None) == 1


@pytest.mark.parametrize(
    ("count", "chosen"),
    # Ranked: 4 (no score), then 0.0, 0.1, 0.3, 0.9, 1.0 = samples 3, 1, 5, 0, 2. Places are evenly spread over 0..5,
    # and 2.5 is rounded to the even 2.
    [(3, [4, 1, 2]), (2, [4, 2]), (1, [2]), (0, []), (9, [4, 3, 1, 5, 0, 2])],
)
def test_the_choice_spreads_from_worst_to_best(count, chosen):
    totals = [0.9, 0.1, 1.0, 0.0, None, 0.3]
    rollouts = Rollouts(tuple(attempt(i) for i in range(6)))
    rewards = Rewards(tuple(reward("x", i, total) for i, total in enumerate(totals)), {})
    assert [r.sample for r in choose_rollouts(rollouts, rewards, count)] == chosen
    turned = Rollouts(rollouts.rows[::-1])
    assert [r.sample for r in choose_rollouts(turned, rewards, count)] == chosen


def test_a_tool_of_any_name_and_a_text_of_any_characters_are_stored(store):
    run_id = store[0].create_run(store[1]).info.run_id
    call = make_call("add\x00" + "n" * 100_000, {}, "c1")
    messages = (
        *PROMPT,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "error: no such tool", "name": call["function"]["name"], "tool_call_id": "c1"},
        {"role": "assistant", "content": "\x00\x1b[31mred"},
    )
    assert log(store, run_id, (dataclasses.replace(attempt(0), messages=messages),), (reward("x", 0, 0.0),)) == 1
    (trace,) = traces_of(store, run_id)
    assert trace.info.response_preview == r"\x00\x1b[31mred"
    (name,) = [span.name for span in trace.data.spans if span.span_type == "TOOL"]
    assert name == r"add\x00" + "n" * 93
    said = max(trace.data.spans, key=lambda span: span.start_time_ns).outputs["messages"][0]["content"]
    assert said == "\x00\x1b[31mred"
