"""An environment as its conversations meet it: its tools, how many turns there are, and what a rollout may take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rlft.contract.base import BaseEnv
from rlft.contract.calling import call
from rlft.contract.faults import calling
from rlft.contract.signatures import check_run_tool
from rlft.contract.tools import ToolSpec, read_tools
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
    """Ask the environment for its tools. Raises EnvironmentSetupError for tools that cannot be described or called."""
    with calling(f"{type(environment).__name__}.list_tools"):
        listed = await call(environment.list_tools)
    tools = {spec.name: spec for spec in read_tools(listed)}
    check_run_tool(environment, tuple(tools.values()))
    talks = bool(tools) or type(environment).respond is not BaseEnv.respond
    turns = limits.max_turns or environment.max_turns or (TURNS_WITH_TOOLS if talks else 1)
    return Stage(environment, tools, turns, limits)


def open_stage(environment: BaseEnv, limits: Limits, background: Background | None = None) -> Stage:
    """`set_stage` from plain code. Raises RlftError also when there is no answer in time."""
    if background is None:
        with Background(environment) as own:
            return open_stage(environment, limits, own)
    seconds, where = limits.tool_timeout_seconds, f"{type(environment).__name__}.list_tools"
    return background.wait(background.start(set_stage(environment, limits)), seconds, where, seconds)
