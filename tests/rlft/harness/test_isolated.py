"""Tools in worker processes: what they do to their process is the error of one rollout, and all else is the same."""

import time
from dataclasses import replace

import pytest

from rlft.config import HarnessConfig
from rlft.environments.contract.loading import load_environment
from rlft.errors import RlftError
from rlft.harness.opening import open_playground
from rlft.harness.scripted import Part, as_script, play_scripts
from rlft.messages import make_call
from tests.factories import make_task


def load(name="Tools"):
    return load_environment(f"tests.rlft.environments.workers.isolated_env:{name}", {})


def does(*what):
    """A script that does these things with the tool, one a turn, and ends."""
    calls = [{"role": "assistant", "content": "", "tool_calls": [make_call("do", {"what": each}, str(n))]}
             for n, each in enumerate(what)]  # fmt: skip
    return as_script([*calls, {"role": "assistant", "content": "done"}])


def play(scripts, environment=None, *, infos=None, **settings):
    harness = HarnessConfig(**{"isolation": "process", **settings})
    parts = [
        Part(f"r{n}", make_task(f"t{n}", info=(infos or {}).get(n, {})), script) for n, script in enumerate(scripts)
    ]
    return play_scripts(parts, environment or load(), harness)


def heard(rollout):
    return [message["content"] for message in rollout.messages if message["role"] == "tool"]


@pytest.mark.slow
def test_conversations_are_the_same_in_processes_and_threads():
    scripts = [does("a", "b"), does("fail"), does("long"), as_script("hello"), does()]
    scripts.append(as_script([{"role": "assistant", "content": "", "tool_calls": [make_call("do", {"what": 3}, "1")]}]))

    def played(isolation, **processes):
        rows = play(scripts, isolation=isolation, max_tool_characters=100, **processes)
        return [replace(row, token_ids=None, loss_mask=None, logprobs=None) for row in rows]

    def told(rows):
        return [(row.messages, row.state, row.turns, row.tool_calls, row.tool_errors, row.stop_reason) for row in rows]

    apart = played("process", processes=2)
    assert told(apart) == told(played("thread"))
    assert heard(apart[0]) == ["did a", "did b"]
    assert apart[0].state == {"did": ["a", "b"]}
    assert heard(apart[1])[0].startswith("error: ZeroDivisionError")
    assert heard(apart[2]) == ["x" * 100 + " ... (49999900 more characters)"]


@pytest.mark.slow
def test_a_tool_that_ends_its_process_costs_its_own_rollout_alone():
    scripts = [does("a", "b", "c")] * 6 + [does("a", "segfault")] + [does("a", "b", "c")] * 6 + [does("exit")]
    rows = play(scripts, processes=2)
    assert [row.error is None for row in rows] == [True] * 6 + [False] + [True] * 6 + [False]
    # Those that shared its process went on in another one with the state that they had.
    assert all(row.state == {"did": ["a", "b", "c"]} for row in (*rows[:6], *rows[7:13]))
    assert str(rows[6].error).startswith("harness: the worker process was ended by SIGSEGV")
    assert str(rows[13].error).startswith("harness: the worker process ended with exit code 0 in tool do; what to do: ")
    assert rows[6].stop_reason == "error"
    assert rows[6].messages[-1]["tool_calls"][0]["function"]["arguments"] == {"what": "segfault"}


@pytest.mark.slow
def test_setup_and_respond_run_there_too():
    rows = play([does("a"), as_script("abort"), does("a")], infos={0: {"setup": "kill"}})
    assert [row.error and row.error.where for row in rows] == ["setup", "respond", None]


@pytest.mark.slow
def test_a_tool_that_hangs_in_c_among_64_costs_its_rollout_alone():
    started = time.perf_counter()
    rows = play([does("a", "backtrack" if n == 20 else "b") for n in range(64)], processes=2, tool_timeout_seconds=1.0)
    assert [n for n, row in enumerate(rows) if row.error] == [20]
    assert "was killed, as it had run nothing for 1 s" in str(rows[20].error)
    assert time.perf_counter() - started < 60


@pytest.mark.slow
def test_a_tool_that_never_returns_is_told_to_the_model_and_costs_nothing():
    rows = play([does("loop", "a")] + [does("a")] * 63, processes=2, tool_timeout_seconds=1.0)
    assert [row.error for row in rows] == [None] * 64
    assert heard(rows[0]) == ["error: do took longer than 1 s", "did a"]


def test_an_environment_that_keeps_more_than_state_loses_the_rollouts_of_the_process():
    rows = play([does(*["a"] * 10), does("sleepy", "exit")], load("Keeps"), processes=1)
    assert "another rollout has ended the worker process" in str(rows[0].error)
    assert str(rows[1].error).startswith("harness: the worker process ended with exit code 0 in tool do")


@pytest.mark.slow
def test_processes_that_end_again_and_again_stop_the_run():
    with pytest.raises(RlftError, match="its code has ended 8 worker processes in a row, the last one as it ended"):
        play([does("exit")] * 20, processes=1)


def test_the_tools_are_those_of_the_process():
    playground = open_playground(load(), HarnessConfig(isolation="process"))
    assert {name: spec.description for name, spec in playground.tools.items()} == {
        "do": "Do something.",
        "sleep": "Wait.",
    }
    assert playground.max_turns == 8
