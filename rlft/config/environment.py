"""The sections `environment`, `reward` and `harness` of a config.

A reward may be a specification (`reward.spec`), which `rlft.config.file` reads where it is in a file of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_serializer, model_validator

from rlft.config.section import (
    LARGEST_WEIGHT,
    LONGEST_SECONDS,
    MOST,
    SEVERAL,
    SPECIFICATION,
    ImportPath,
    Plain,
    Section,
    Text,
)
from rlft.rewards.specification.model import Specification

Isolation = Literal["thread", "process"]


class Workers(Section):
    """Where code of an environment runs."""

    isolation: Isolation | None = Field(
        default=None,
        description="Where it runs, a reward or the environment's `setup`, tools, `respond` and `teardown`: `thread` "
        "(of the run's process) or `process` (worker processes, for code that may crash, hang in C or end its process; "
        "that is the error of one rollout then). null means what the environment says (its attribute `isolation`), "
        "which is `thread` unless its author writes otherwise.",
    )
    processes: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Worker processes with `isolation: process`, each of which makes one call at a time, so write more "
        "where calls wait for others. null means as many as `concurrency` for a reward, and for the environment as "
        "many as there are processors, but at most 8.",
    )
    memory_mib: int | None = Field(
        default=None,
        ge=64,
        le=1 << 30,
        description="MiB of address space that a worker process may take beyond what it has when the environment is "
        "made. More is a MemoryError; a process that has kept half of it is replaced. null means no limit.",
    )


class EnvironmentConfig(Section):
    """The environment in which tasks are attempted: its class, and the arguments of its constructor."""

    name: ImportPath = Field(
        description="Class of the environment, as a file (`my_env.py:Class`) or an import path "
        "(`package.module:Class`).",
    )
    kwargs: dict[str, Plain] = Field(
        default={},
        description="Keyword arguments of the environment's constructor. A map with `_target_` is replaced by the "
        "object that it describes. Write a secret as `env:NAME`; it is read from the environment variable NAME.",
    )

    @classmethod
    def of_several(cls, members: Mapping[str, EnvironmentConfig]) -> EnvironmentConfig:
        """Return the environment that has these members."""
        return cls(name=SEVERAL, kwargs={"members": {name: each.model_dump() for name, each in members.items()}})

    def members(self) -> dict[str, EnvironmentConfig]:
        """Return the members of several environments by their names; none of a single one."""
        found = self.kwargs["members"] if self.name == SEVERAL else {}
        return {name: EnvironmentConfig.model_validate(member) for name, member in found.items()}


class RewardConfig(Workers):
    """How the parts of a reward add up, and how scoring is guarded."""

    spec: Specification | None = Field(
        default=None,
        exclude_if=lambda spec: spec is None,
        description="A [specification](reward-specification.md), which is the reward in place of the environment's "
        "own: a YAML file, whose path is relative to the config, or its content. Without `environment` the attempt is "
        "one answer without tools.",
    )
    weights: dict[Text, Annotated[float, Field(ge=-LARGEST_WEIGHT, le=LARGEST_WEIGHT)]] = Field(
        default={},
        description="Weight of each part of the reward. A part that is not named here has the weight that the "
        "environment gives it, or else 1.",
    )
    timeout_seconds: float = Field(
        default=30.0,
        gt=0,
        le=LONGEST_SECONDS,
        description="Seconds that scoring one rollout may take. A score that takes longer is an error, not a 0.",
    )
    full: float | None = Field(
        default=None,
        ge=-1e9,
        le=1e9,
        description="Total reward from which an attempt counts as solved. null means the total of an attempt that has "
        "the maximum in every part with a positive weight.",
    )
    audit: bool = Field(
        default=True,
        description="Whether the reward is attacked with wrong answers before training. The run stops if one of them "
        "is paid like a right answer.",
    )
    max_exploit_ratio: float = Field(
        default=0.9,
        gt=0,
        le=1,
        description="Share of the gold's mean reward from which an attack of the audit stops the run. One that earns "
        "as much as gold on a task stops it whatever this is.",
    )
    accept_exploits: list[Text] = Field(
        default=[],
        description="Kinds of attack that do not stop the run though the reward pays them, by their names in the audit "
        "(`keyword_stuffing`). The report says which were accepted.",
    )
    concurrency: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Rollouts that are scored at the same time. null means 8 for an `async def compute_reward`, and "
        "one after the other for a plain `def`, which runs in threads with 2 or more. The scores are the same.",
    )
    members: dict[str, RewardConfig] | None = Field(
        default=None,
        exclude_if=lambda members: members is None,
        description="Made of `environments`, and not to be written: the reward of each of several environments.",
    )

    @field_serializer("spec")
    def _as_written(self, spec: Specification | None) -> dict[str, Any] | None:
        return None if spec is None else spec.model_dump(mode="json", exclude_defaults=True)

    @model_validator(mode="after")
    def _weighs_criteria_that_there_are(self) -> Self:
        if self.spec is not None:
            for name in self.weights:
                if name != "*" and name not in self.spec.criteria:
                    raise ValueError(f"weights.{name}: the criteria of `spec` are {', '.join(self.spec.criteria)}")
        return self

    def of_member(self, name: str) -> RewardConfig:
        """Return the reward of one of several environments."""
        assert self.members is not None, "a config with several environments has made its reward of theirs"
        return self.members[name]


class HarnessConfig(Workers):
    """The conversation between policy and environment, and the limits of one rollout."""

    max_turns: int | None = Field(
        default=None,
        ge=1,
        le=MOST,
        description="The model gets at most this many turns in one rollout. null means the environment's "
        "`max_turns`; if that is not set either, 8 for an environment with tools or a `respond` method, else 1.",
    )
    max_tool_calls: int = Field(
        default=32,
        ge=0,
        le=MOST,
        description="At most this many tool calls of one rollout are run. For each further call the model reads an "
        "error.",
    )
    max_tokens: int | None = Field(
        default=None,
        ge=1,
        le=MOST,
        description="A rollout that has this many tokens after its prompt, tool results included, gets no further "
        "turn. null means that only the model's context is the limit.",
    )
    tool_timeout_seconds: float = Field(
        default=30.0,
        gt=0,
        le=LONGEST_SECONDS,
        description="Seconds that one tool call, and one call of the environment's `setup`, `respond` or `teardown`, "
        "may take.",
    )
    timeout_seconds: float = Field(
        default=1800.0,
        gt=0,
        le=LONGEST_SECONDS,
        description="Seconds after which a rollout gets no further turn, and after which the remaining tool calls of "
        "one turn are not run.",
    )
    max_tool_characters: int = Field(
        default=20_000,
        ge=1,
        le=100_000_000,
        description="Characters that the model reads of one tool result, and of what `respond` returns; a longer text "
        "is cut.",
    )
    lockstep: bool = Field(
        default=False,
        description="Whether all rollouts wait for each other after every turn. This is slower, but with it a "
        "repeated run gives the same bytes also where tools are slow.",
    )
    tool_format: Literal["auto", "hermes", "llama3", "mistral"] = Field(
        default="auto",
        description="Format in which the model writes tool calls. `auto` takes the one that its chat template writes.",
    )


PLAIN = "rlft.environments.specified:Plain"
"""The environment of a config that has a specification and names none."""


def with_specification(environment: EnvironmentConfig, reward: RewardConfig) -> EnvironmentConfig:
    """Return the environment whose reward is the specification of `reward`, or the same one if it has none.

    The weights of `reward` stand in it. Raises ValueError for an environment that has a specification of another
    reward, and for weights that its criteria cannot have.
    """
    if reward.spec is None:
        if SPECIFICATION in environment.kwargs:
            raise ValueError(
                f"environment.kwargs.{SPECIFICATION} is made of reward.spec, which is not there; write reward.spec"
            )
        return environment
    content = reward.spec.weighed(reward.weights).model_dump_json(exclude_defaults=True)
    return environment.model_copy(update={"kwargs": {**environment.kwargs, SPECIFICATION: content}})


def unscored(environment: EnvironmentConfig) -> EnvironmentConfig:
    """Return the environment as attempts are made in it: the same one whatever its specification says.

    So nothing is sampled again after an edit of the specification. It cannot score.
    """
    if members := environment.members():
        return EnvironmentConfig.of_several({name: unscored(member) for name, member in members.items()})
    if SPECIFICATION not in environment.kwargs:
        return environment
    return environment.model_copy(update={"kwargs": {**environment.kwargs, SPECIFICATION: ""}})
