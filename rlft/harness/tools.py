"""Runs one call of a tool within a time limit; whatever goes wrong becomes a message to the model."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
from pydantic import BaseModel

from rlft.environments.contract.base import BaseEnv, call, keeping
from rlft.environments.contract.faults import failure_of, place_of
from rlft.environments.contract.tools import ToolArgumentsError, ToolSpec
from rlft.messages import printable
from rlft.outcome import Failure
from rlft.types import ToolCall

_MARGIN = 1 << 16  # characters; no value of a variable is longer


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The outcome of a call: the text that the model reads, whether the call failed, and what the tool's code raised.

    `fault` is for the author of the tool. It is `None` if no code of the author's raised, as in a call that is wrong or
    took too long.
    """

    text: str
    failed: bool = False
    fault: Failure | None = None


async def call_tool(
    environment: BaseEnv,
    tools: Mapping[str, ToolSpec],
    rollout_id: str,
    wanted: ToolCall,
    *,
    timeout_seconds: float,
    max_characters: int,
) -> ToolResult:
    """Run one call, and cut its result to `max_characters`. An error of the tool becomes the result, too."""
    name, given = wanted["function"]["name"], wanted["function"]["arguments"]
    spec = tools.get(name)
    if spec is None:
        close = get_close_matches(name, tools, n=1)
        hint = f"; did you mean {close[0]}?" if close else f"; there are: {', '.join(tools) or 'none'}"
        return ToolResult(f"error: there is no tool named {name!r:.100}{hint}", failed=True)
    limit = asyncio.timeout(timeout_seconds)
    fault = None
    try:
        arguments = spec.read_arguments(given)
        async with limit:
            with keeping(partial(_shown, max_characters)) if _is_plain(environment) else nullcontext():
                result = await call(environment.run_tool, rollout_id, name, **arguments)
        return ToolResult(_shown(max_characters, result))
    except ToolArgumentsError as error:
        text = f"error: wrong arguments: {error}"
    except Exception as error:
        is_late = isinstance(error, TimeoutError) and limit.expired()  # a tool may raise a TimeoutError of its own
        what = f"{name} took longer than {timeout_seconds:g} s"
        text = f"error: {what}" if is_late else f"error: {type(error).__name__}: {error}"
        fault = None if is_late or place_of(error) is None else failure_of(f"tool {name}", error)
    return ToolResult(shortened(text, max_characters), failed=True, fault=fault)


class _Shown(str):
    """What a model reads of a result."""

    __slots__ = ()


def _is_plain(environment: BaseEnv) -> bool:
    """Return whether nothing of the environment's looks at the result of a tool before the model reads it."""
    return type(environment).run_tool is BaseEnv.run_tool


def _shown(longest: int, result: Any) -> str:
    """Return what a model reads of a tool's result. Raises TypeError for one that is neither text nor JSON."""
    if isinstance(result, _Shown):
        return result
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=_plain)
    return _Shown(shortened(text, longest))


def _plain(value: Any) -> Any:
    """Convert a value that JSON does not know to one that it does, for `json.dumps`. Raises TypeError."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, date | Decimal | Fraction | UUID | Path):
        return str(value)
    raise TypeError(f"the tool returned {type(value).__name__}, which is neither text nor JSON")


def shortened(text: str, length: int) -> str:
    """Return a text as `printable` makes it, its end replaced by a note of how much is missing if it is longer.

    Of a text that is much longer only the beginning is copied, with some more, as a secret may lie across the cut.
    """
    beginning = printable(text[: length + _MARGIN])
    missing = len(beginning) - length + max(0, len(text) - length - _MARGIN)
    return beginning if missing <= 0 else f"{beginning[:length]} ... ({missing} more characters)"
