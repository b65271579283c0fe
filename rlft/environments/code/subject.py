"""A program for the sandbox of the model's code: it calls the code's functions for the judge in another sandbox.

Nothing here is secret and nothing is trusted. The model's code may rewrite all of it, and can then do no more than
answer calls, which is what it is asked to do. One JSON object a line comes in on stdin and goes out on stdout:

    in   {"code": text}                                     out  {"ready": 1} before, then {"value": null}
    in   {"call": name, "args": [...], "kwargs": {...}}     out  {"value": encoded}
                                                            or   {"raised": class, "bases": [...], "text": ...}
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from rlft.environments.code.values import decode, encode

_LONGEST_TEXT = 300  # characters of an exception's text


def main() -> None:
    """Read calls from stdin and answer them on stdout, until there are no more."""
    # What the model's code prints must not get between the answers, and what it reads must not be the calls.
    calls, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    namespace: dict[str, Any] = {"__name__": "solution", "__builtins__": __builtins__}
    print('{"ready": 1}', file=answers, flush=True)
    for line in calls:
        try:
            text = json.dumps({"value": encode(_answer(json.loads(line), namespace))})
        except BaseException as error:
            text = json.dumps(_as_json(error))
        print(text, file=answers, flush=True)


def _answer(call: dict[str, Any], namespace: dict[str, Any]) -> Any:
    if "code" in call:
        exec(compile(call["code"], "solution.py", "exec"), namespace)  # noqa: S102 - this is the sandbox
        return None
    name = call["call"]
    if name not in namespace:
        raise NameError(f"name {name!r} is not defined")
    kwargs = {key: decode(value) for key, value in call["kwargs"].items()}
    return namespace[name](*[decode(value) for value in call["args"]], **kwargs)


def _as_json(error: BaseException) -> dict[str, Any]:
    """Return an exception as an answer, with the names of its built-in base classes, the most special first."""
    bases = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"]
    return {"raised": type(error).__name__, "bases": bases, "text": str(error)[:_LONGEST_TEXT]}


if __name__ == "__main__":
    sys.setrecursionlimit(5000)
    main()
