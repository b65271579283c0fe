"""Prints a conversation and its reward in the terminal, for `rlft show` and `rlft environments check`.

What a model or a tool wrote may hold anything; it cannot steer the terminal (`rlft.reporting.terminal`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from rlft.calls import marked
from rlft.reporting.terminal import Terminal, styled

LONGEST = 1500  # characters of a message or a call
_LONGEST_NAME = 60  # characters of a tool's name
_STYLES = {"system": "dim", "user": "bold cyan", "assistant": "bold green", "tool": "bold yellow"}


def show_messages(console: Terminal, messages: Sequence[Mapping[str, Any]], *, full: bool = False) -> None:
    """Print every message under its role, tool calls as `name(argument=value)`; long texts are cut unless `full`.

    The result of a call that failed is marked. A call that could not be read is shown as the model wrote it, with the
    place at which reading stopped marked.
    """
    turn = 0
    for message in messages:
        role = str(message["role"])
        turn += role == "assistant"
        title = {"assistant": f"assistant, turn {turn}", "tool": f"tool {_in_one_line(message.get('name'))}".rstrip()}
        if role == "tool" and message.get("failed"):
            console.print(styled(f"{title[role]}, failed", "bold red"))
        else:
            console.print(styled(title.get(role, role), _STYLES.get(role, "bold")))
        if message["content"]:
            console.print_behind("  ", cut(message["content"], full))
        for call in message.get("tool_calls", ()):
            console.print_behind("  ", cut(call_text(call), full), "yellow")
        for call in message.get("invalid_tool_calls", ()):
            if call["text"]:
                console.print_behind("  not read: ", cut(marked(call["text"], call["position"]), full), "red")


def show_parts(
    console: Terminal, parts: Mapping[str, float | None], weights: Mapping[str, float], total: float | None
) -> None:
    """Print the parts of a reward with their weights, and its total; a part that does not apply is a dash."""
    table = Table("part", "score", "weight", box=None)
    for name, score in parts.items():
        table.add_row(name, number(score), number(weights.get(name, 1.0)))
    table.add_row("total", number(total), "", style="bold")
    console.print(table)


def call_text(call: Mapping[str, Any]) -> str:
    """Return a tool call as a person would write it: `search(query="moon", count=3)`."""
    function = call["function"]
    arguments = function["arguments"].items()
    given = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments)
    return f"{function['name']}({given})"


def cut(text: str, full: bool) -> str:
    """Return the first `LONGEST` characters of a text and how many are missing, or with `full` the whole text."""
    if full or len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]} ... ({len(text) - LONGEST} more characters; --full shows them)"


def _in_one_line(name: str | None) -> str:
    """Return a tool's name in one line, cut if it is long: a model may have called anything a tool."""
    return " ".join((name or "").split())[:_LONGEST_NAME]


def number(value: float | None) -> str:
    """Return a score with at most three decimals, or a dash for `None`."""
    return "-" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")
