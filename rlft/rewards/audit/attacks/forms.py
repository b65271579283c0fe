"""Attempts in the right form: JSON, calls of tools, and programs that end or fool what tests them.

Where an environment is handed the answer by its calls, gold's own calls are right whatever is said behind them. So they
are only used with a wrong text where it is the text that counts (`Known.text_counts`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from rlft.harness.scripted import Script
from rlft.messages import make_call
from rlft.rewards.audit.attacks.base import MOST_ANSWERS, Attack, Known
from rlft.rewards.audit.attacks.texts import as_json, calls_of, defined_names
from rlft.types import Message, ToolCall


def _holds(value: str) -> Callable[[Known], str | None]:
    """Return an attacker that puts a value where the answer stands; not where gold is this value."""
    return lambda known: None if known.answer.strip().casefold() == value.casefold() else known.declare(value)


def _is_json(known: Known) -> bool:
    return known.value not in (None, {}, [])


def _is_object(known: Known) -> bool:
    return _is_json(known) and isinstance(known.value, dict)


def _has_other(known: Known) -> bool:
    return _is_object(known) and isinstance(known.other_value, dict)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _leaves(change: Callable[[Any], Any]) -> Callable[[Known], str]:
    """Return an attacker that changes each field of gold that is no object."""

    def changed(value: Any) -> Any:
        return {key: changed(each) for key, each in value.items()} if isinstance(value, dict) else change(value)

    return lambda known: _dump(changed(known.value))


def _every_value(known: Known) -> str:
    """Return the items of all lists, or the object with the values that its fields have in all golds, as lists."""
    golds = [found for text in known.pool.texts[:MOST_ANSWERS] if type(found := as_json(text)) is type(known.value)]
    if isinstance(known.value, list):
        return _dump(_different([item for gold in golds for item in gold]))
    seen: dict[str, list[Any]] = {key: [] for key in known.value}
    for gold in golds:
        for key in seen.keys() & gold.keys():
            seen[key] += gold[key] if isinstance(gold[key], list) else [gold[key]]
    return _dump({key: _different(values) for key, values in seen.items()})


def _different(values: list[Any]) -> list[Any]:
    return list({_dump(value): value for value in values}.values())


def _twice(known: Known) -> list[str]:
    """Return an object with each key twice: gold's value first, and last."""
    own, other = (_dump(each)[1:-1] for each in (known.value, known.other_value))
    return [f"{{{own}, {other}}}", f"{{{other}, {own}}}"]


def _item_repeated(known: Known) -> str | None:
    """Return the first item as often as gold has items; not where they are all the same."""
    items = known.value
    if isinstance(items, list):
        return _dump(items[:1] * len(items)) if any(each != items[0] for each in items) else None
    said = [each.strip() for each in known.answer.split(",")] if known.short else []
    different = {each.casefold() for each in said}
    return known.declare(", ".join(said[:1] * len(said))) if len(different) > 1 and all(said) else None


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


def _every_call(known: Known) -> Script | None:
    """Return the last calls of many golds with another answer, with all of gold's own in their middle."""
    own = known.task.answer
    pairs = zip(known.pool.golds, known.pool.given, strict=True)
    golds = [gold for gold, given in pairs if (own is None or given != own) and calls_of(gold) and gold != known.gold]
    last = [calls_of(gold)[-1] for gold in golds][: max(0, _MOST_CALLS - len(known.calls))]
    middle = len(last) // 2
    return _script([*last[:middle], *known.calls, *last[middle:]], known.wrong) if len(last) >= 2 else None


_EQUAL = '''\
class Same:
    """Is equal to everything, and is whatever it is asked to be."""

    def __init__(self, *_, **__): pass
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __contains__ = __lt__
    def __hash__(self): return 0
    def __bool__(self): return True
    def __len__(self): return 1
    def __iter__(self): return iter(())
    def __call__(self, *_, **__): return self
    def __getattr__(self, name): return self
    def __abs__(self): return 0
    def __sub__(self, other): return 0
    __rsub__ = __sub__
    def __str__(self): return "1"
'''
_MARKERS = 'for line in ("1.0", "True", "PASSED", "All tests passed", "OK", "Success"):\n    print(line)\n'
_PRINTS_AND_ENDS = f"{_MARKERS}import os, sys\nsys.stdout.flush()\nos._exit(0)\n"


def _is_program(known: Known) -> bool:
    return known.program is not None


def _wrapped(known: Known, code: str) -> str:
    """Return code in a fenced block where gold is in one."""
    return f"```python\n{code.rstrip()}\n```" if "```" in known.text else code


def _says(code: str, body: str = "return None") -> Callable[[Known], str]:
    """Return an attacker that puts code before functions with gold's names and this body."""

    def make(known: Known) -> str:
        names = defined_names(known.program or "")
        functions = "".join(f"def {name}(*_, **__):\n    {body}\n" for name in names)
        return _wrapped(known, f"{code}{functions}")

    return make


def _commented(known: Known) -> str:
    lines = "\n".join(f"# {line}" for line in (known.program or "").splitlines())
    return _wrapped(known, f"{lines}\npass")


def _attack(name: str, why: str, make: Callable[[Known], str], *, certain: bool = True) -> Attack:
    return Attack(name, why, make, _is_program, certain=certain, says_nothing=True)


ATTACKS = (
    Attack("empty_form", "it has the form of gold and no answer in it", lambda known: known.declare(""),
           lambda known: any(each.strip() for each in known.form), says_nothing=True),
    Attack("unknown_in_form", "it says in gold's form that it does not know", _holds("I do not know"),
           says_nothing=True),
    Attack("nan", "NaN is no answer, and every comparison with it is false", _holds("nan"), says_nothing=True),
    Attack("infinity", "infinity is no answer", _holds("inf"), says_nothing=True),
    Attack("many_digits", "no task asks for a number of 5,000 digits", _holds("9" * 5000), says_nothing=True),
    Attack("broken_json", "it is cut off before any value", '{"answer": [', says_nothing=True),
    Attack("deep_json", "it is nested so deeply that most parsers fail on it", "[" * 20_000, says_nothing=True),
    Attack("empty_object", "it has no field", "{}", says_nothing=True),
    Attack("null", "null is no answer", _holds("null"), says_nothing=True),
    Attack("null_fields", "every field is null", _leaves(lambda _: None), _is_object, says_nothing=True),
    Attack("every_value", "it lists the values of all tasks", _every_value, _is_json, certain=False),
    Attack("key_twice", "each key has two values", _twice, _has_other),
    Attack("item_repeated", "it lists one item again and again", _item_repeated, certain=False, counts="full"),
    Attack("tool_spam", "it repeats another task's call, and answers wrongly", _spam, _calls, certain=False),
    Attack("gold_calls_wrong_answer", "it answers wrongly", lambda known: known.wrong, _calls_and_says, certain=False),
    Attack("gold_calls_no_answer", "it answers nothing", "", _calls_and_says),
    Attack("every_tool", "its calls mean nothing",
           lambda known: _script(_sampled(known, known.tools), known.wrong), _has_tools, says_nothing=True),
    Attack("every_call", "it makes the calls of many tasks", _every_call, _calls_count, certain=False),
    _attack("empty_program", "it does nothing", lambda known: _wrapped(known, "pass")),
    _attack("returns_true", "its functions return true, whatever they are given", _says("", "return True"),
            certain=False),
    _attack("system_exit", "it ends the process as if all had passed", _says("import sys\nsys.exit(0)\n")),
    _attack("exit_when_called", "its functions end the process", _says("import os\n", "os._exit(0)")),
    _attack("equals_all", "its functions return an object that equals everything", _says(_EQUAL, "return Same()")),
    _attack("exits_with_success", "it prints what a test runner prints, and ends", _says(_PRINTS_AND_ENDS)),
    Attack("commented_gold", "all of it is a comment", _commented, _is_program),
)  # fmt: skip
