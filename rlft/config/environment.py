"""The sections `environment`, `reward` and `harness` of a config.

A reward may be a specification, in a file of its own or in the config (`reward.spec`). The file's content replaces its
name when a config is read, so that a stored config needs no file; and as it may come from somebody else, it may do only
what the config allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_serializer, field_validator, model_validator

from rlft.config.addresses import named_addresses, refuse_metadata
from rlft.config.section import (
    LARGEST_WEIGHT,
    LONGEST_SECONDS,
    MOST,
    SEVERAL,
    SPECIFICATION,
    Section,
    Text,
    changed,
    is_import_path,
)
from rlft.config.workers import Isolation, Workers
from rlft.config.yaml_text import read_yaml
from rlft.errors import ConfigError
from rlft.files import why_no_file
from rlft.rewards.specification.model import Specification


def check_key(content: Mapping[str, Any], where: str) -> None:
    """Raise ConfigError if the file of a specification asks for a variable that is not there for judges.

    The file says where the key is sent. A variable is there for judges if a word of its name is `JUDGE`.
    """
    judge = content.get("judge")
    if not isinstance(judge, Mapping):
        return
    key = judge.get("api_key")
    if isinstance(key, str) and "JUDGE" not in key.removeprefix("env:").upper().split("_"):
        raise ConfigError(
            f"judge.api_key would send {key} to {judge.get('endpoint')}, and a file may not choose any variable",
            where=where,
            fix="name one with JUDGE in it, such as env:JUDGE_KEY, or write the specification into the config",
        )


def _refuse_without_workers(section: RewardConfig | HarnessConfig) -> None:
    for name, value in changed(section, "processes", "memory_mib").items():
        if section.isolation == "thread":
            raise ValueError(
                f"{name}={value} does nothing with isolation thread; set isolation to process, or remove {name}"
            )


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
        if not is_import_path(name) or not name.isprintable():
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

    @classmethod
    def of_several(cls, members: Mapping[str, EnvironmentConfig]) -> EnvironmentConfig:
        """Return the environment that has these members."""
        return cls(name=SEVERAL, kwargs={"members": {name: each.model_dump() for name, each in members.items()}})

    def members(self) -> dict[str, EnvironmentConfig]:
        """Return the members of several environments by their names; none of a single one."""
        found = self.kwargs["members"] if self.name == SEVERAL else {}
        return {name: EnvironmentConfig.model_validate(member) for name, member in found.items()}


class RewardConfig(Section):
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
    isolation: Isolation | None = Field(
        default=None,
        description="Where the reward runs: `thread` (of the run's process) or `process` (worker processes, for code "
        "that may crash, hang in C or end its process; that is the error of one rollout then). null means what the "
        "environment says (its attribute `isolation`), which is `thread` unless its author writes otherwise.",
    )
    processes: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Worker processes with `isolation: process`. null means one for each plain `def` that is scored at "
        "the same time, and one for an `async def`.",
    )
    memory_mib: int | None = Field(
        default=None,
        ge=64,
        le=1 << 30,
        description="MiB of address space that a worker process may take beyond what it has when the environment is "
        "made. More is a MemoryError; a process that has kept half of it is replaced. null means no limit.",
    )
    members: dict[str, RewardConfig] | None = Field(
        default=None,
        exclude_if=lambda members: members is None,
        description="Made of `environments`, and not to be written: the reward of each of several environments.",
    )

    @field_validator("spec", mode="before")
    @classmethod
    def _is_read_already(cls, spec: Any) -> Any:
        if isinstance(spec, str):
            raise ValueError(f"{spec:.80} is a file's name, which is read from a config's file alone; give its content")
        return spec

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

    @model_validator(mode="after")
    def _limits_workers_that_there_are(self) -> Self:
        _refuse_without_workers(self)
        return self

    def of_member(self, name: str) -> RewardConfig:
        """Return the reward of one of several environments."""
        assert self.members is not None, "a config with several environments has made its reward of theirs"
        return self.members[name]

    def workers(self) -> Workers:
        """Return how the reward's code is run."""
        return Workers(self.isolation, self.processes, self.memory_mib, self.concurrency)


class HarnessConfig(Section):
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
    tool_format: Literal["auto", "hermes", "llama3", "mistral", "declared"] = Field(
        default="auto",
        description="Format in which the model writes tool calls. `auto` takes the one that the tokenizer declares, "
        "or the one that its chat template writes; `declared` takes the former only.",
    )
    isolation: Isolation | None = Field(
        default=None,
        description="Where the environment's `setup`, tools, `respond` and `teardown` run: `thread` (of the run's "
        "process) or `process` (worker processes). null means what the environment says, as for `reward.isolation`.",
    )
    processes: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Worker processes with `isolation: process`, among which the rollouts are divided. null means as "
        "many as there are processors, but at most 8.",
    )
    memory_mib: int | None = Field(
        default=None,
        ge=64,
        le=1 << 30,
        description="MiB of address space that a worker process may take beyond what it has when the environment is "
        "made. More is a MemoryError, which the model reads. null means no limit.",
    )

    @model_validator(mode="after")
    def _limits_workers_that_there_are(self) -> Self:
        _refuse_without_workers(self)
        return self

    def workers(self) -> Workers:
        """Return how the environment's code is run."""
        return Workers(self.isolation, self.processes, self.memory_mib)


PLAIN = "rlft.environments.specified:Plain"
"""The environment of a config that has a specification and names none."""
PAGE = "docs/guide/reward-specification.md"
_LARGEST_FILE = 1_000_000  # bytes


def read_specification(path: Path, setting: str) -> dict[str, Any]:
    """Return the content of a specification's file, unchecked.

    `setting` names the file, for the error. Raises ConfigError for what cannot be read as a YAML mapping.
    """
    where, fix = f"{setting}: {path}", f"name a YAML file with criteria, as {PAGE} shows"
    if problem := why_no_file(path):
        raise ConfigError(problem, where=where, fix=f"{fix}; its path is relative to the config")
    try:
        if (size := path.stat().st_size) > _LARGEST_FILE:
            raise ValueError(f"the file has {size:,} bytes, and at most {_LARGEST_FILE:,} are read")
        content = read_yaml(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as cause:
        raise ConfigError(f"it is not readable as YAML: {cause}", where=where, fix="mend the file") from cause
    if not isinstance(content, dict):
        raise ConfigError("it is no mapping with criteria", where=where, fix=fix)
    return content


def read_named_specifications(content: MutableMapping[str, Any], folder: Path) -> dict[str, Path]:
    """Replace the names of files in all settings `reward.spec` of a config or suite by what the files hold.

    Names are relative to `folder`, the config's own. Returns {setting: file}. Raises ConfigError as
    `read_specification` does, and for a key that a file may not ask for.
    """
    files = dict[str, Path]()
    for path, reward in _rewards(content):
        if isinstance(reward.get("spec"), str):
            file = files[f"{path}.spec"] = folder / Path(reward["spec"]).expanduser()
            reward["spec"] = read_specification(file, f"{path}.spec")
            check_key(reward["spec"], f"{path}.spec: {file}")
    return files


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


def _rewards(content: Any, path: str = "") -> Iterator[tuple[str, MutableMapping[str, Any]]]:
    """Yield (path, section) of all sections `reward`, at the top or within environments and scenarios."""
    if not isinstance(content, Mapping):
        return
    for key, value in content.items():
        place = f"{path}.{key}" if path else str(key)
        if key == "reward" and isinstance(value, MutableMapping):
            yield place, value
        elif key in ("environments", "suite", "scenarios") or path.rpartition(".")[2] in ("environments", "scenarios"):
            yield from _rewards(value, place)
