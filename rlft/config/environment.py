"""The environment, its reward, and the conversation with it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from rlft.config.addresses import named_addresses, refuse_metadata
from rlft.config.names import is_import_path
from rlft.config.section import Section


class EnvironmentConfig(Section):
    """The environment, by import path (`package.module:Class`) or file (`my_env.py:Class`)."""

    name: str
    kwargs: dict[str, Any] = Field(
        default={},
        description="Arguments of its constructor. A map with `_target_` is replaced by the object that it describes. "
        "Write secrets as `env:NAME`, which is read from that variable.",
    )

    @field_validator("name")
    @classmethod
    def _names_a_class(cls, name: str) -> str:
        if not is_import_path(name):
            raise ValueError(f"{name!r:.80} names no class; write capitals.py:Capitals or package.module:Capitals")
        return name

    @field_validator("kwargs")
    @classmethod
    def _asks_no_metadata_server(cls, kwargs: dict[str, Any]) -> dict[str, Any]:
        for path, address in named_addresses(kwargs, ""):
            try:
                refuse_metadata(address)
            except ValueError as wrong:
                raise ValueError(f"{path.lstrip('.')}: {wrong}") from None
        return kwargs


class RewardConfig(Section):
    """How the parts of a reward add up, and how scoring is guarded."""

    weights: dict[str, float] = Field(
        default={},
        description="Weight of each part; a part that is not named here has its weight in the environment, or 1.",
    )
    timeout_seconds: float = Field(
        default=30.0, gt=0, description="A score that takes longer is an error, not a 0. Seconds."
    )
    full: float | None = Field(
        default=None,
        description="An attempt whose total is this high counts as solved; null: the total of one that has the maximum "
        "in every part with a positive weight.",
    )
    audit: bool = Field(
        default=True,
        description="Attack the reward with wrong answers before training, and stop if one is paid like a right one.",
    )


class HarnessConfig(Section):
    """The conversation between policy and environment, and the limits of one rollout."""

    max_turns: int | None = Field(
        default=None,
        ge=1,
        description="Turns of the model; null: the environment's `max_turns`, else 8 with tools and 1 without.",
    )
    max_tool_calls: int = Field(
        default=32,
        ge=0,
        description="How many calls of a rollout are run; the model reads an error for each further one.",
    )
    max_tokens: int | None = Field(
        default=None,
        ge=1,
        description="With so many tokens after its prompt, tool results included, a rollout gets no further turn; "
        "null: the model's context is the limit.",
    )
    tool_timeout_seconds: float = Field(default=30.0, gt=0, description="How long one tool call may take. Seconds.")
    timeout_seconds: float = Field(
        default=1800.0,
        gt=0,
        description="A rollout gets no further turn after so many seconds, and a turn no further call.",
    )
    max_tool_characters: int = Field(default=20_000, ge=1, description="A longer tool result is cut.")
    lockstep: bool = Field(
        default=False,
        description="Rollouts wait for each other after every turn: slower, but a repeated run gives the same bytes.",
    )
    tool_format: Literal["auto", "hermes", "llama3", "mistral", "declared"] = Field(
        default="auto",
        description="The form in which the model writes tool calls; auto: as the tokenizer or its chat template says.",
    )
