"""What all conversations with an environment share: its tools, the number of turns, and the limits of a rollout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rlft.config import HarnessConfig
from rlft.contract.base import BaseEnv
from rlft.contract.calling import call
from rlft.contract.faults import calling
from rlft.contract.signatures import check_run_tool
from rlft.contract.tools import ToolSpec, read_tools

TURNS_WITH_TOOLS = 8  # most turns, if neither config nor environment says how many, of one with tools or `respond`


@dataclass(frozen=True, slots=True)
class Playground:
    """An environment, its tools by name, the most turns of a conversation with it, and the other limits."""

    environment: BaseEnv
    tools: Mapping[str, ToolSpec]
    max_turns: int
    harness: HarnessConfig


async def make_playground(environment: BaseEnv, harness: HarnessConfig) -> Playground:
    """Ask the environment for its tools. Raises EnvironmentSetupError if these cannot be described or called."""
    with calling(f"{type(environment).__name__}.list_tools"):
        listed = await call(environment.list_tools)
    tools = {spec.name: spec for spec in read_tools(listed)}
    check_run_tool(environment, tuple(tools.values()))
    talks = bool(tools) or type(environment).respond is not BaseEnv.respond
    turns = harness.max_turns or environment.max_turns or (TURNS_WITH_TOOLS if talks else 1)
    return Playground(environment, tools, turns, harness)
