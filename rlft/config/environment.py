"""The environment, its reward, and the conversation with it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from rlft.config.addresses import named_addresses, refuse_metadata
from rlft.config.section import Section


class EnvironmentConfig(Section):
    """The environment, by import path (`package.module:Class`) or file (`my_env.py:Class`)."""

    name: str = Field(pattern=r"^[^:]+:[A-Za-z_][A-Za-z_0-9]*$")
    kwargs: dict[str, Any] = Field(
        default={},
        description="Arguments of its constructor; a map with `_target_` becomes the object that it names, and a "
        "secret is named, `env:NAME`, never written.",
    )

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
    """How the parts of a reward add up."""

    weights: dict[str, float] = Field(default={}, description="Weight of each part; parts not named here weigh 1.")
    timeout_seconds: float = Field(default=30.0, gt=0, description="A score that takes longer is an error, not a 0.")
    full: float | None = Field(
        default=None, description="A total this high counts as solved; default: all positive weights."
    )
    audit: bool = Field(default=True, description="Attack the reward with wrong answers before training.")


class HarnessConfig(Section):
    """The conversation between policy and environment, and what one rollout may take."""

    max_turns: int | None = Field(
        default=None, ge=1, description="Of the model; null: what the environment says, or 8 with tools and 1 without."
    )
    max_tool_calls: int = Field(default=32, ge=0, description="Of one rollout; more are answered with an error.")
    max_tokens: int | None = Field(
        default=None, ge=1, description="After the prompt, before another turn begins; null: what the context holds."
    )
    tool_timeout_seconds: float = Field(default=30.0, gt=0, description="For one call.")
    timeout_seconds: float = Field(default=1800.0, gt=0, description="Of one rollout, before another turn begins.")
    max_tool_characters: int = Field(default=20_000, ge=1, description="Of one result; longer ones are cut.")
    lockstep: bool = Field(
        default=False, description="All tools of a turn end before the next: slower, but the same bytes every time."
    )
    tool_format: Literal["auto", "hermes", "llama3", "mistral", "declared"] = Field(
        default="auto", description="How calls are written; auto: as the tokenizer or its chat template says."
    )
