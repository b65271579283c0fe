"""An environment as its conversations meet it: its tools, how many turns there are, and what a rollout may take."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rlft.environments.base import BaseEnv
from rlft.environments.calling import call
from rlft.environments.tools import ToolSpec, read_tools
from rlft.errors import EnvironmentSetupError
from rlft.harness.background import Background

TURNS_WITH_TOOLS = 8


@dataclass(frozen=True, slots=True)
class Limits:
    """What one rollout may take.

    `max_turns` of the model (`None`: the environment's own), `max_tool_calls` in all, `max_tokens` after the prompt
    before another turn begins (`None`: what the context holds), seconds of one call and of the whole conversation, and
    characters of one result. `lockstep` waits for all tools before the engine goes on with any conversation.
    """

    max_turns: int | None = None
    max_tool_calls: int = 32
    max_tokens: int | None = None
    tool_timeout_seconds: float = 30.0
    timeout_seconds: float = 1800.0
    max_tool_characters: int = 20_000
    lockstep: bool = False


@dataclass(frozen=True, slots=True)
class Stage:
    """An environment as its conversations meet it: the tools by name, and how many turns there are."""

    environment: BaseEnv
    tools: Mapping[str, ToolSpec]
    max_turns: int
    limits: Limits


async def set_stage(environment: BaseEnv, limits: Limits) -> Stage:
    """Ask the environment for its tools. Raises EnvironmentSetupError for tools that cannot be described."""
    tools = {spec.name: spec for spec in read_tools(await call(environment.list_tools))}
    if tools:
        _check_call(environment)
    _check_names(environment, tools.values())
    talks = bool(tools) or type(environment).respond is not BaseEnv.respond
    turns = limits.max_turns or environment.max_turns or (TURNS_WITH_TOOLS if talks else 1)
    return Stage(environment, tools, turns, limits)


def _check_call(environment: BaseEnv) -> None:
    """Raises EnvironmentSetupError where `run_tool` does not take what it is called with: every call would fail."""
    try:
        inspect.signature(environment.run_tool).bind_partial("rollout", "tool")
    except TypeError as error:
        raise EnvironmentSetupError(
            f"it cannot be called with a rollout's id and a tool's name: {error}",
            where=f"{type(environment).__name__}.run_tool",
            fix="write run_tool(self, rollout_id, tool_name, **args)",
        ) from error


def _check_names(environment: BaseEnv, tools: Iterable[ToolSpec]) -> None:
    """Raises EnvironmentSetupError for an argument named as one of `run_tool`'s own: every call would fail."""
    function = getattr(environment.run_tool, "__func__", None)  # with its self
    first = list(inspect.signature(function).parameters.values())[:3] if function else []
    taken = {parameter.name for parameter in first if parameter.kind is parameter.POSITIONAL_OR_KEYWORD}
    for tool in tools:
        if both := sorted(taken & set(tool.parameters["properties"])):
            raise EnvironmentSetupError(
                f"tool {tool.name} takes {both[0]}, which run_tool has already",
                where="list_tools",
                fix="name the argument otherwise, or write run_tool(self, rollout_id, tool_name, /, **args)",
            )


def open_stage(environment: BaseEnv, limits: Limits, background: Background | None = None) -> Stage:
    """`set_stage` from plain code. Raises RlftError also when there is no answer in time."""
    if background is None:
        with Background(environment) as own:
            return open_stage(environment, limits, own)
    seconds, where = limits.tool_timeout_seconds, f"{type(environment).__name__}.list_tools"
    return background.wait(background.start(set_stage(environment, limits)), seconds, where, seconds)
