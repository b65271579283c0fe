"""The sections `environment`, `reward` and `harness` of a config."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from rlft.config.addresses import named_addresses, refuse_metadata
from rlft.config.names import is_import_path
from rlft.config.section import Section


class EnvironmentConfig(Section):
    """The environment in which tasks are attempted: its class, and the arguments of its constructor."""

    name: str = Field(
        description="Class of the environment, as a file (`my_env.py:Class`) or an import path "
        "(`package.module:Class`).",
    )
    kwargs: dict[str, Any] = Field(
        default={},
        description="Keyword arguments of the environment's constructor. A map with `_target_` is replaced by the "
        "object that it describes. Write a secret as `env:NAME`; it is read from the environment variable NAME.",
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
        description="Weight of each part of the reward. A part that is not named here has the weight that the "
        "environment gives it, or else 1.",
    )
    timeout_seconds: float = Field(
        default=30.0,
        gt=0,
        description="Seconds that scoring one rollout may take. A score that takes longer is an error, not a 0.",
    )
    full: float | None = Field(
        default=None,
        description="Total reward from which an attempt counts as solved. null means the total of an attempt that has "
        "the maximum in every part with a positive weight.",
    )
    audit: bool = Field(
        default=True,
        description="Whether the reward is attacked with wrong answers before training. The run stops if one of them "
        "is paid like a right answer.",
    )


class HarnessConfig(Section):
    """The conversation between policy and environment, and the limits of one rollout."""

    max_turns: int | None = Field(
        default=None,
        ge=1,
        description="The model gets at most this many turns in one rollout. null means the environment's "
        "`max_turns`; if that is not set either, 8 for an environment with tools or a `respond` method, else 1.",
    )
    max_tool_calls: int = Field(
        default=32,
        ge=0,
        description="At most this many tool calls of one rollout are run. For each further call the model reads an "
        "error.",
    )
    max_tokens: int | None = Field(
        default=None,
        ge=1,
        description="A rollout that has this many tokens after its prompt, tool results included, gets no further "
        "turn. null means that only the model's context is the limit.",
    )
    tool_timeout_seconds: float = Field(
        default=30.0,
        gt=0,
        description="Seconds that one tool call, and one call of the environment's `setup`, `respond` or `teardown`, "
        "may take.",
    )
    timeout_seconds: float = Field(
        default=1800.0,
        gt=0,
        description="Seconds after which a rollout gets no further turn, and after which the remaining tool calls of "
        "one turn are not run.",
    )
    max_tool_characters: int = Field(
        default=20_000, ge=1, description="Characters of a tool result that the model reads; a longer one is cut."
    )
    lockstep: bool = Field(
        default=False,
        description="Whether all rollouts wait for each other after every turn. This is slower, but with it a "
        "repeated run gives the same bytes also where tools are slow.",
    )
    tool_format: Literal["auto", "hermes", "llama3", "mistral", "declared"] = Field(
        default="auto",
        description="Format in which the model writes tool calls. `auto` takes the one that the tokenizer declares, "
        "or the one that its chat template writes; `declared` takes the former only.",
    )
