"""`@tool`, `@reward` and `@metric`: methods of an environment as its tools and as the parts of its reward."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar, overload

from rlft.environments.functions import tool_from_function
from rlft.environments.tools import ToolSpec
from rlft.errors import EnvironmentSetupError

Method = TypeVar("Method", bound=Callable[..., Any])

HIDDEN = ("self", "state", "rollout_id")  # parameters that the harness gives a tool
_TOOL, _WEIGHT = "__rlft_tool__", "__rlft_weight__"


def tool(method: Method) -> Method:
    """The method is a tool of this name; types become its schema, the docstring what the model reads.

    It may also take `state`, the dict of the rollout, and `rollout_id`; the model does not see these.
    """
    setattr(method, _TOOL, True)
    return method


@overload
def reward(weight: Method) -> Method: ...
@overload
def reward(weight: float = 1.0) -> Callable[[Method], Method]: ...
def reward(weight: Any = 1.0) -> Any:
    """The method is a part of the reward with this weight, which `reward.weights` in a config replaces.

    It takes, by name, what it needs of: completion, text, ground_truth, task, state.
    """
    if callable(weight):  # written without parentheses
        return reward()(weight)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight):
        raise EnvironmentSetupError(f"weight={weight!r} is not a finite number", where="@reward")

    def mark(method: Method) -> Method:
        setattr(method, _WEIGHT, float(weight))
        return method

    return mark


def metric(method: Method) -> Method:
    """The method is measured and shown like a part of the reward, and weighs nothing."""
    setattr(method, _WEIGHT, 0.0)
    return method


def marked_tools(environment: object) -> tuple[ToolSpec, ...]:
    """The tools that methods of the environment are, in the order of definition, base classes first."""
    found = _marked(environment, _TOOL)
    return tuple(replace(tool_from_function(method, hidden=HIDDEN), name=name) for name, method in found)


def marked_weights(environment: object) -> dict[str, float]:
    """{part: weight} of the methods that are rewards and metrics; of an environment or its class."""
    return {name: getattr(method, _WEIGHT) for name, method in _marked(environment, _WEIGHT)}


def marked_names(environment_class: type) -> frozenset[str]:
    """Names of the methods that are tools."""
    return frozenset(name for name, _ in _marked(environment_class, _TOOL))


def taken(method: Callable[..., Any], known: dict[str, Any]) -> dict[str, Any]:
    """Those of the known values whose names the method takes."""
    names = inspect.signature(method).parameters
    return {name: value for name, value in known.items() if name in names}


def _marked(environment: object, mark: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    own = environment if isinstance(environment, type) else type(environment)
    names = dict.fromkeys(name for each in reversed(own.__mro__) for name in vars(each))
    for name in names:
        if hasattr(getattr(own, name, None), mark):
            yield name, getattr(environment, name)
