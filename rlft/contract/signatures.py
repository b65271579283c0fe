"""Checks that an environment's methods take the arguments they are called with, before anything is sampled."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any

from rlft.contract.base import BaseEnv
from rlft.contract.faults import defined_at
from rlft.contract.marks import REWARD_ARGUMENTS, STEP_ARGUMENTS, marked_steps, marked_weights
from rlft.contract.tools import ToolSpec
from rlft.errors import EnvironmentSetupError

_GIVEN: dict[str, tuple[str, ...]] = {  # {method: the arguments it is called with, by position}
    "context": ("task",),
    "setup": ("task",),
    "gold_completion": ("task",),
    "attacks": ("task",),
    "demonstration": ("task",),
    "list_tools": (),
    "run_tool": ("rollout_id", "tool_name"),
    "respond": ("rollout_id", "completion"),
    "teardown": ("rollout_id",),
    "compute_reward": ("completion", "ground_truth"),
    "compute_step_rewards": ("completion", "ground_truth"),
    "final_answer": ("completion",),
    "reward_weights": (),
    "reward_minima": (),
    "step_weights": (),
    "data_fingerprint": (),
    "reward_fingerprint": (),
}
_ON_COMPLETION = "; the task is completion.task, the answer's text completion.text, the state completion.state"


def check_signatures(environment: BaseEnv) -> None:
    """Raise EnvironmentSetupError for a method that does not take its arguments; the error shows what to write.

    The methods of `BaseEnv` are called by position, so their arguments may have any name except that of an argument in
    another place. Methods marked as rewards and metrics are called by name.
    """
    for name in _GIVEN:
        if getattr(getattr(environment, name), "__func__", None) is not getattr(BaseEnv, name):
            _check(environment, name)
    for name in marked_weights(environment):
        _check_marked(environment, name, REWARD_ARGUMENTS)
    for name in marked_steps(environment):
        _check_marked(environment, name, STEP_ARGUMENTS)


def check_run_tool(environment: BaseEnv, tools: Sequence[ToolSpec]) -> None:
    """Raise EnvironmentSetupError if `run_tool` cannot take the arguments of a tool: every call of it would fail."""
    if tools:
        _check(environment, "run_tool")
    _check_twice(environment, tools)
    if (signature := _signature(environment.run_tool)) is None:
        return
    for tool in tools:
        arguments = list(tool.parameters["properties"])
        try:
            signature.bind(*_GIVEN["run_tool"], **dict.fromkeys(arguments))
        except TypeError as error:
            given = f"the arguments of {tool.name} ({', '.join(arguments) or 'none'})"
            raise _refusal(environment, "run_tool", given, str(error)) from error


def _check(environment: BaseEnv, name: str) -> None:
    given, signature = _GIVEN[name], _signature(getattr(environment, name))
    if signature is None:
        return
    what = " and ".join(given) or "nothing"
    try:
        (signature.bind_partial if name == "run_tool" else signature.bind)(*given)
    except TypeError as error:
        raise _refusal(environment, name, what, str(error)) from error
    for place, parameter in zip(given, signature.parameters, strict=False):
        if parameter in given and parameter != place:
            raise _refusal(environment, name, f"{what}, in this order", f"{place} would be its {parameter}")


def _refusal(environment: BaseEnv, name: str, given: str, why: str) -> EnvironmentSetupError:
    method = getattr(environment, name)
    arguments = ", ".join(["self", *_GIVEN[name], *(["**args"] if name == "run_tool" else [])])
    return EnvironmentSetupError(
        f"it takes {_signature(method)}{defined_at(method)}, but is given {given}: {why}",
        where=f"{type(environment).__name__}.{name}",
        fix=f"write {name}({arguments}){_ON_COMPLETION if 'completion' in arguments else ''}",
    )


def _check_twice(environment: BaseEnv, tools: Sequence[ToolSpec]) -> None:
    """Raise EnvironmentSetupError if a tool's argument has the name of one of `run_tool`'s own parameters.

    Every call that gives it would fail, as the parameter would get two values.
    """
    function = getattr(environment.run_tool, "__func__", None)  # unbound, so that `self` is among its parameters
    first = list(inspect.signature(function).parameters.values())[:3] if function else []
    taken = {parameter.name for parameter in first if parameter.kind is parameter.POSITIONAL_OR_KEYWORD}
    for tool in tools:
        if both := sorted(taken & set(tool.parameters["properties"])):
            raise EnvironmentSetupError(
                f"tool {tool.name} takes {both[0]}, which run_tool has already",
                where="list_tools",
                fix="name the argument otherwise, or write run_tool(self, rollout_id, tool_name, /, **args)",
            )


def _check_marked(environment: BaseEnv, name: str, known: Sequence[str]) -> None:
    """Raise EnvironmentSetupError if a marked method needs an argument that is none of the known ones."""
    method = getattr(environment, name)
    signature = _signature(method)
    for parameter in signature.parameters.values() if signature is not None else ():
        many = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        by_name = parameter.name in known and parameter.kind is not parameter.POSITIONAL_ONLY
        if many or by_name or parameter.default is not parameter.empty:
            continue
        close = get_close_matches(parameter.name, known, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]}? " if close else ""
        raise EnvironmentSetupError(
            f"it takes {signature}{defined_at(method)}, but no reward is given {parameter.name}",
            where=f"{type(environment).__name__}.{name}",
            fix=f"{hint}A reward takes, by name, what it needs of: {', '.join(known)}",
        )


def _signature(method: Callable[..., Any]) -> inspect.Signature | None:
    """Return the signature, or `None` for a callable written in C that has none to read."""
    try:
        return inspect.signature(method)
    except ValueError:
        return None
