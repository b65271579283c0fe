"""Attempts with tools: calls that are malformed, repeated, in excess or another task's, and answers that ignore them.

Where an environment is handed the answer by its calls, gold's own calls are right whatever is said behind them. So they
are only used with a wrong text where it is the text that counts (`Known.text_counts`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from rlft.harness.scripted import Script, as_script
from rlft.messages import make_call
from rlft.rewards.audit.attacks.base import Attack, Known
from rlft.rewards.audit.attacks.texts import calls_of
from rlft.types import Message, ToolCall

_MOST_CALLS = 24
_SAMPLES: dict[str, Any] = {
    "string": "x", "integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}, "null": None,
}  # fmt: skip


def _has_tools(known: Known) -> bool:
    return bool(known.tools)


def _calls(known: Known) -> bool:
    return bool(known.calls)


def _calls_and_says(known: Known) -> bool:
    return bool(known.calls) and known.text_counts and known.other is not None


def _calls_count(known: Known) -> bool:
    return bool(known.calls) and not known.text_counts


def _script(calls: Iterable[ToolCall], text: str) -> Script:
    """Return a message with these calls, `_MOST_CALLS` at most and numbered anew, and one with the text."""
    asked = [call["function"] for call in calls][:_MOST_CALLS]
    made = [make_call(each["name"], each["arguments"], f"audit-{number}") for number, each in enumerate(asked)]
    asks = (Message(role="assistant", content="", tool_calls=made),) if made else ()
    return (*asks, Message(role="assistant", content=text))


def _other_calls(known: Known) -> list[ToolCall]:
    return [] if known.other is None else calls_of(known.other)


def _spam(known: Known) -> Script | None:
    calls = _other_calls(known)[:1]
    return _script(calls * 5, known.wrong) if calls else None


def _sampled(known: Known, names: Iterable[str]) -> list[ToolCall]:
    """Return one call of each of these tools with arguments that only have the right types."""
    return [make_call(name, _arguments(known.tools[name].parameters), "x") for name in names]


def _arguments(schema: dict[str, Any]) -> dict[str, Any]:
    required = schema.get("required", ())
    return {name: _sample(each) for name, each in schema.get("properties", {}).items() if name in required}


def _sample(schema: dict[str, Any]) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type", "string")
    return _SAMPLES.get(kind[0] if isinstance(kind, list) else kind, "x")


def _malformed(known: Known) -> Script:
    return _script([make_call(name, {"no such argument": [None]}, "x") for name in known.tools], known.wrong)


def _as_text(known: Known) -> Script:
    """Return a call that is written as text, of gold's first tool or the first one; nothing is called."""
    name = known.calls[0]["function"]["name"] if known.calls else next(iter(known.tools))
    given = _other_calls(known)[0]["function"]["arguments"] if _other_calls(known) else {}
    written = json.dumps({"name": name, "arguments": given}, ensure_ascii=False)
    return as_script(f"I called the tools and they succeeded.\n```json\n{written}\n```\n{known.wrong}")


def _every_call(known: Known) -> Script | None:
    """Return the last calls of many golds with another answer, with all of gold's own in their middle."""
    own = known.task.answer
    pairs = zip(known.pool.golds, known.pool.given, strict=True)
    golds = [gold for gold, given in pairs if (own is None or given != own) and calls_of(gold) and gold != known.gold]
    last = [calls_of(gold)[-1] for gold in golds][: max(0, _MOST_CALLS - len(known.calls))]
    middle = len(last) // 2
    return _script([*last[:middle], *known.calls, *last[middle:]], known.wrong) if len(last) >= 2 else None


ATTACKS = (
    Attack("tool_spam", "it repeats another task's call, and answers wrongly", _spam, _calls, certain=False),
    Attack("gold_calls_wrong_answer", "it answers wrongly", lambda known: known.wrong, _calls_and_says, certain=False),
    Attack("gold_calls_no_answer", "it answers nothing", "", _calls_and_says),
    Attack("every_tool", "its calls mean nothing",
           lambda known: _script(_sampled(known, known.tools), known.wrong), _has_tools, says_nothing=True),
    Attack("malformed_calls", "its calls have no right arguments", _malformed, _has_tools, says_nothing=True),
    Attack("call_as_text", "it writes a call as text, and calls nothing", _as_text, _has_tools, certain=False),
    Attack("every_call", "it makes the calls of many tasks", _every_call, _calls_count, certain=False),
)  # fmt: skip
