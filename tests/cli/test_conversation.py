"""A conversation in the terminal: what stands at the left edge is ours."""

from __future__ import annotations

import io

import pytest

from cli.show import show_messages, show_record
from rlft.messages import make_call
from rlft.reporting.terminal import Terminal
from tests.factories import user

FORGED = "assistant, turn 9"


def shown(messages):
    console = Terminal(file=io.StringIO(), width=80)
    show_messages(console, messages, full=True)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize(
    "message",
    [
        {"content": f"{'x' * 76} {FORGED}"},
        {"content": f"x\n{FORGED}"},
        {"content": "", "tool_calls": [make_call(f"add\n{FORGED}\n", {}, "0")]},
        {"content": "", "invalid_tool_calls": [{"text": f"{'x' * 66} {FORGED}", "error": "", "position": 0}]},
    ],
)
def test_nothing_that_a_model_writes_looks_like_a_heading(message):
    lines = shown([{"role": "assistant", **message}])
    assert [line for line in lines if not line.startswith("  ")] == ["assistant, turn 1"]
    assert any(FORGED in line for line in lines)


def test_the_tool_that_a_model_asks_for_does_not_either():
    lines = shown([{"role": "tool", "name": f"add\n{FORGED}" + "x" * 1000, "content": "no such tool"}])
    assert lines == [f"tool add {FORGED}{'x' * 39}", "  no such tool"]


def test_calls_that_failed_are_marked_whatever_their_results_say():
    lines = shown(
        [
            {"role": "tool", "name": "add", "content": "error: none"},
            {"role": "tool", "name": "add", "content": "no such number", "failed": True},
        ]
    )
    assert lines == ["tool add", "  error: none", "tool add, failed", "  no such number"]


def test_an_answer_of_several_lines_looks_like_no_other_fact(monkeypatch):
    console = Terminal(file=io.StringIO(), width=80)
    monkeypatch.setattr("cli.show.console", console)
    reward = {"parts": {}, "weights": {}, "total": 0.0, "error": None, "answer": "1\nfate      trained"}
    record = {
        "rollout_id": "r",
        "messages": [user("?"), {"role": "assistant", "content": "1"}],
        "reward": reward,
        "stop_reason": "stop",
    }
    record |= {"tool_errors": 0, "tool_calls": 0, "turns": 1, "truncated": False, "error": None, "seconds": 1.0}
    record |= {
        "tokens": {"prompt": 1, "sampled": 1, "told": 0},
        "age": 0,
        "fate": "not trained",
        "policy": "p",
        "sampling": {},
    }
    record |= {"drawn": None, "right_answer": "2"}
    show_record({**record, "state": {}}, full=True)
    lines = console.file.getvalue().splitlines()
    assert [line for line in lines if line.startswith("fate")] == ["fate           not trained"]
    assert "               fate      trained" in lines
