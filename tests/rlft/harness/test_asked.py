"""Conversations with a model behind an address: what it reads, what it may call, and what becomes of its failures."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest

import rlft
from mlops.tracking.traces import rollout_spans, token_usage
from rlft.config import HarnessConfig, RewardConfig
from rlft.engines import server_requests
from rlft.engines.chat_endpoint import AskedModel
from rlft.environments.contract.loading import load_environment
from rlft.errors import EngineError
from rlft.evaluation.metrics import round_metrics
from rlft.harness.asked import AskedPlayer
from rlft.harness.attempt import Example, Examples
from rlft.harness.rollout import SamplingSettings, collect_rollouts
from rlft.rewards.scoring import score_rollouts
from rlft.types import Rollouts, derive_seed, storage
from tests.factories import make_task, user
from tests.rlft.engines.chat_servers import DROP, HANG, ChatServer, completion, function_call

SAMPLING = SamplingSettings(temperature=0.0, max_completion_length=16, seed=7)
KEY = "sk-kept-secret-0123456789"


class Adder(rlft.BaseEnv):
    """Adds with a tool."""

    system_prompt = "Add."

    async def setup(self, task):
        return {"added": 0}

    @rlft.tool
    def add(self, a: int, b: int, state: dict) -> int:
        """Add two numbers."""
        state["added"] += 1
        return a + b

    def compute_reward(self, completion, answer):
        return float(completion.text.strip() == answer)


class Plain(rlft.BaseEnv):
    def compute_reward(self, completion, answer):
        return float(completion.text.strip() == answer)


class Talks(Plain):
    """Says after each answer whether it is right, and ends with the third."""

    max_turns = 3

    def respond(self, rollout_id, trajectory):
        return "Again."


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(server_requests, "_FIRST_WAIT", 0.001)
    monkeypatch.setattr(server_requests, "_LONGEST_WAIT", 0.01)


def collect(answer, environment=None, tasks=None, *, examples=None, harness=None, generations=1, **settings):
    """The rollouts of tasks with an endpoint that answers so, and the server."""
    sampling = SAMPLING.model_copy(update={"examples": examples, "harness": harness or HarnessConfig()})
    with ChatServer(answer) as server:
        model = AskedModel(server.url, "small", **{"attempts": 2, "timeout_seconds": 5.0} | settings)
        rollouts = collect_rollouts(
            tasks or [make_task()],
            environment or Plain(),
            AskedPlayer(model),
            sampling,
            num_generations=generations,
            round=0,
            label="evaluation",
            environment_fingerprint="print",
        )
    return rollouts, server


def scored(rollouts, environment, tasks):
    return score_rollouts(
        rollouts, {task.id: task for task in tasks}, environment, RewardConfig(full=1.0, timeout_seconds=5.0)
    )


def test_a_single_answer_is_a_rollout_without_tokens():
    usage = {"prompt_tokens": 5, "completion_tokens": 1}
    tasks = [make_task("a", "1+1=", "2"), make_task("b", "2+2=", "4")]
    rollouts, server = collect(lambda body, number: completion("2", usage=usage), tasks=tasks)
    assert rollouts.metrics == {"endpoint/prompt_tokens": 10.0, "endpoint/completion_tokens": 2.0}
    one = rollouts.rows[0]
    assert one.messages == (user("1+1="), {"role": "assistant", "content": "2"})
    assert [len(each) for each in (one.token_ids, one.loss_mask, one.logprobs)] == [0, 0, 0]
    assert (one.prompt_length, one.completion_length, one.turns, one.stop_reason, one.error) == (0, 0, 1, "stop", None)
    assert (one.policy, one.environment) == (f"small at {server.url}", "print")
    assert one.sampling == SAMPLING.of_tokens.fingerprint
    assert [reward.total for reward in scored(rollouts, Plain(), tasks)] == [1.0, 0.0]


def test_attempts_are_told_apart_by_seeds_that_follow_from_the_run():
    rollouts, server = collect(lambda body, number: "2", generations=3, concurrency=1)
    seeds = [derive_seed(7, "evaluation", 0, 0, "t0", sample) for sample in range(3)]
    assert [row.seed for row in rollouts] == seeds
    assert [body["seed"] for body in server.bodies] == [seed % 2**31 for seed in seeds]


def test_tools_are_offered_called_and_answered():
    def answer(body, number):
        if body["messages"][-1]["role"] == "tool":
            return f"It is {body['messages'][-1]['content']}"
        return completion({"content": None, "tool_calls": [function_call("add", {"a": 1, "b": 1})]}, "tool_calls")

    rollouts, server = collect(answer, Adder())
    (row,) = rollouts
    assert [message["role"] for message in row.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert row.messages[-1]["content"] == "It is 2"
    assert (row.turns, row.tool_calls, row.tool_errors, row.state) == (2, 1, 0, {"added": 1})
    (tool,) = server.bodies[0]["tools"]
    assert (tool["type"], tool["function"]["name"]) == ("function", "add")
    assert tool["function"]["parameters"]["properties"]["a"]["type"] == "integer"
    assert server.bodies[1]["messages"][2:] == [
        {"role": "assistant", "content": "", "tool_calls": [function_call("add", '{"a": 1, "b": 1}')]},
        {"role": "tool", "content": "2", "tool_call_id": "call_1"},
    ]
    assert server.bodies[1]["seed"] == derive_seed(row.seed, "turn", 1) % 2**31


def test_malformed_calls_are_observations():
    calls = [function_call("add", '{"a": 1'), function_call("add", {"a": 1}, "c2"), function_call("sub", {}, "c3")]

    def answer(body, number):
        return "2" if number > 1 else completion({"content": "", "tool_calls": calls}, "tool_calls")

    (row,), server = collect(answer, Adder())
    assert (row.error, row.stop_reason, row.turns) == (None, "stop", 2)
    assert (row.tool_calls, row.tool_errors, row.state) == (3, 3, {"added": 0})
    told = [message["content"] for message in row.messages if message["role"] == "tool"]
    assert told[0].startswith("error: wrong arguments: b: Field required")
    assert told[1] == "error: there is no tool named 'sub'; there are: add"
    assert told[2].startswith("error: tool call 1 has arguments in a string that is not JSON")
    assert [message["role"] for message in server.bodies[1]["messages"][-4:]] == ["assistant", "tool", "tool", "user"]


def test_an_environment_that_responds_goes_on_until_its_last_turn():
    (row,), server = collect(lambda body, number: str(number), Talks())
    assert [message["content"] for message in row.messages] == ["1+1=", "1", "Again.", "2", "Again.", "3", "Again."]
    assert (row.turns, row.stop_reason, len(server.bodies)) == (3, "stop", 3)


def test_an_answer_that_is_cut_off_ends_the_rollout_and_its_calls_are_not_run():
    call = function_call("add", {"a": 1, "b": 1})
    said = completion({"content": "Well", "tool_calls": [call]}, "length")
    (row,), server = collect(lambda body, number: said, Adder())
    assert (row.stop_reason, row.truncated, row.error, row.tool_calls, row.turns) == ("length", True, None, 0, 1)
    assert row.messages[-1] == {"role": "assistant", "content": "Well"}
    assert len(server.bodies) == 1


def test_a_conversation_that_takes_too_long_is_cut_off():
    (row,), server = collect(lambda body, number: "2", Talks(), harness=HarnessConfig(timeout_seconds=1e-9))
    assert (row.stop_reason, row.truncated, row.turns, len(server.bodies)) == ("length", True, 1, 1)


@pytest.mark.parametrize("form", ["turns", "text"])
def test_examples_are_read_before_each_prompt_and_are_no_part_of_the_rollout(form):
    shown = Example(prompt=[user("3+3=")], turns=[{"role": "assistant", "content": "6"}])
    (row,), server = collect(lambda body, number: "2", Talks(), examples=Examples(form=form, shown=[shown]))
    assert row.messages[0] == user("1+1=")
    for body in server.bodies:
        said = [message["content"] for message in body["messages"]]
        if form == "turns":
            assert said[:3] == ["3+3=", "6", "1+1="]
        else:
            assert said[0] == "Examples:\n\n3+3=\n6\n\nAnswer in the same way:\n\n1+1="
    assert [len(body["messages"]) for body in server.bodies] == ([3, 5, 7] if form == "turns" else [1, 3, 5])


def test_examples_that_cannot_be_shown_are_an_error_of_the_rollout():
    both = [{"role": "assistant", "content": "6"}] * 2
    shown = Examples(form="text", shown=[Example(prompt=[user("3+3=")], turns=both)])
    (row,), server = collect(lambda body, number: "2", examples=shown)
    assert (row.error.where, row.stop_reason, server.bodies) == ("prompt", "error", [])


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (401, "answers 401: "),
        (429, "answers 429: "),
        (500, "answers 500: "),
        (HANG, "does not answer: TimeoutError"),
        (DROP, "does not answer: RemoteProtocolError"),
        ((200, b"<html>", {}), "answers as no chat endpoint does: <html>"),
        ({"choices": [{"message": {"content": 5}}]}, "answers as no chat endpoint does: its content is no text"),
    ],
)
def test_an_endpoint_that_does_not_answer_is_an_error_and_never_a_score(fault, why):
    tasks = [make_task("a", "1+1=", "2"), make_task("b", "2+2=", "4")]
    limits = {"timeout_seconds": 0.2, "attempts": 1} if fault == HANG else {}
    rollouts, server = collect(
        lambda body, number: fault if body["messages"][0]["content"] == "2+2=" else "2", tasks=tasks, **limits
    )
    good, bad = rollouts
    assert (good.error, bad.stop_reason, bad.truncated) == (None, "error", False)
    assert bad.error.where == "engine"
    assert bad.error.why.startswith(f"{server.url} {why}")
    assert [reward.total for reward in scored(rollouts, Plain(), tasks)] == [1.0, None]
    assert bad.messages[-1] == {"role": "assistant", "content": ""}


def test_an_endpoint_that_goes_away_in_the_middle_leaves_what_was_said():
    call = completion({"content": "", "tool_calls": [function_call("add", {"a": 1, "b": 1})]}, "tool_calls")
    (row, _), _ = collect(
        lambda body, number: {1: call, 2: 503, 3: 503}.get(number, "2"), Adder(), generations=2, concurrency=1
    )
    assert (row.error.where, row.turns, row.state) == ("engine", 1, {"added": 1})
    assert row.messages[-1]["content"] == "2"


def test_an_endpoint_that_leaves_most_attempts_without_an_answer_ends_the_asking():
    tasks = [make_task(f"t{n}") for n in range(4)]
    rollouts, _ = collect(lambda body, number: "2" if number <= 2 else DROP, tasks=tasks, concurrency=1)
    assert [row.error is None for row in rollouts] == [True, True, False, False]  # half of them is kept
    with pytest.raises(EngineError) as raised:  # an attempt is two requests
        collect(lambda body, number: "2" if number == 1 else 503, tasks=tasks, concurrency=1)
    assert raised.value.what.startswith("it left 3 of 4 attempts without an answer; the last time http://127.0.0.1")
    assert "answers 503" in raised.value.what
    assert "`rlft resume`" in raised.value.fix


def test_refusals_are_answers():
    rollouts, _ = collect(lambda body, number: 400)
    assert rollouts.rows[0].error.where == "engine"


def test_nobody_at_the_address_ends_the_asking():
    with ChatServer(lambda body, number: "2") as server:
        pass
    player = AskedPlayer(AskedModel(server.url, "small"))
    options = {"num_generations": 1, "round": 0, "label": "evaluation"}
    with pytest.raises(EngineError, match=f"the last time {server.url} does not answer: ConnectError"):
        collect_rollouts([make_task()], Plain(), player, SAMPLING, **options)


def test_code_of_the_environment_that_fails_is_its_error():
    class Fails(Plain):
        def setup(self, task):
            raise KeyError("x")

    (row,), server = collect(lambda body, number: "2", Fails())
    assert (row.error.where, server.bodies) == ("setup", [])


def test_no_more_requests_at_once_than_the_endpoint_takes():
    def answer(body, number):
        time.sleep(0.02)
        return "2"

    _, server = collect(answer, tasks=[make_task(f"t{n}") for n in range(12)], concurrency=3)
    assert (server.at_once, len(server.bodies)) == (3, 12)


def test_the_key_stands_in_no_rollout(monkeypatch):
    monkeypatch.setenv("ENDPOINT_KEY", KEY)
    said = {1: (401, KEY.encode(), {}), 2: f"I know {KEY}"}
    tasks = [make_task("a"), make_task("b")]
    rollouts, server = collect(
        lambda body, number: said[number], tasks=tasks, api_key="env:ENDPOINT_KEY", concurrency=1, attempts=1
    )
    assert [headers["Authorization"] for headers in server.headers] == [f"Bearer {KEY}"] * 2
    assert rollouts.rows[0].error.why.endswith("answers 401: ***")
    assert rollouts.rows[1].messages[-1]["content"] == "I know ***"
    assert KEY not in repr(rollouts)


@pytest.mark.parametrize(("what", "error"), [("a", None), ("exit", "harness")])
def test_tools_in_a_process_of_their_own(what, error):
    def answer(body, number):
        if body["messages"][-1]["role"] == "tool":
            return body["messages"][-1]["content"]
        return completion({"content": None, "tool_calls": [function_call("do", {"what": what})]})

    environment = load_environment("tests.rlft.environments.workers.isolated_env:Tools", {})
    harness = HarnessConfig(isolation="process", processes=1, max_turns=2)
    (row,), _ = collect(answer, environment, harness=harness)
    assert (row.error and row.error.where) == error
    if error is None:
        said = [message["content"] for message in row.messages if message["role"] != "user"]
        assert (said, row.state) == (["", "did a", "did a"], {"did": ["a"]})


def test_rollouts_without_tokens_are_stored_measured_and_traced_as_they_are():
    tasks = [make_task("a", "1+1=", "2"), make_task("b", "2+2=", "4")]
    rollouts, _ = collect(lambda body, number: 401 if body["messages"][0]["content"] == "2+2=" else "2", tasks=tasks)
    again = storage.rollouts_from_table(storage.rollouts_to_table(rollouts))
    assert storage.hash_rows(again.rows, storage.ROLLOUT_SCHEMA) == storage.hash_rows(
        rollouts.rows, storage.ROLLOUT_SCHEMA
    )
    assert again.rows[0].token_ids.dtype == np.int32
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metrics = round_metrics(Rollouts(again.rows, seconds=1.0), scored(again, Plain(), tasks))
    assert {name for name in metrics if name.startswith(("completions/", "perf/"))} == set()
    assert (metrics["reward"], metrics["rewards/errored"], metrics["num_turns/mean"]) == (1.0, 1.0, 1.0)
    row = again.rows[0]
    assert token_usage(row) == {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    assert [span.name for span in rollout_spans(row, 1, b"k" * 16, 0, 10)] == ["rollout", "turn 1"]
