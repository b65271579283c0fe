"""The sections `rollout` and `distributed` of a config: the engine that samples, how it does, and what Ray does."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal, Self, TypeAlias

from pydantic import Field, ValidationError, field_validator, model_validator

from rlft.config.section import COLDEST, HOTTEST, LONGEST_SECONDS, MOST, Plain, Section, check_address
from rlft.errors import ConfigError
from rlft.texts.secrets import hide, named_variables, resolve

# By name, as the files import what samples only where they make it: code that reads a config, such as a reward's, does
# not depend on that.
ENGINES: Mapping[str, Any] = import_module("rlft.engines.kinds").ENGINES


class VllmSettings(Section):
    """Settings of vLLM when it runs in the trainer's process, where it holds a copy of the weights."""

    max_model_len: int | None = Field(
        default=None,
        ge=2,
        le=100 * MOST,
        description="Longest sequence in tokens, prompt and all turns together. null means the model's context.",
    )
    cache_gib: float = Field(default=1.0, gt=0, le=100_000, description="On a CPU: memory for keys and values, in GiB.")
    gpu_memory_utilization: float = Field(
        default=0.4,
        gt=0,
        lt=1,
        description="On a GPU: share of its memory (0 to 1) for vLLM's weights and cache. Training has the rest.",
    )
    sleep: bool = Field(
        default=False,
        description="Whether vLLM gives its GPU memory back after every sampling. Waking it takes time.",
    )


class ServerSettings(Section):
    """The `vllm serve` processes that sample. They must see this machine's files; `rlft serve-engine` starts one."""

    addresses: list[str] = Field(
        default=[],
        description="Addresses of the servers, such as http://127.0.0.1:8000, or env:NAME for an environment variable "
        "that holds one. Rollouts are divided among them.",
    )
    concurrency: int = Field(
        default=64, ge=1, le=10_000, description="Each server gets at most this many requests at the same time."
    )
    timeout_seconds: float = Field(
        default=600.0, gt=0, le=LONGEST_SECONDS, description="Seconds that one request may take."
    )
    attempts: int = Field(
        default=3, ge=1, le=1000, description="Times that a request is tried before its rollout is an error."
    )

    @field_validator("addresses")
    @classmethod
    def _are_addresses(cls, addresses: list[str]) -> list[str]:
        return [each if any(named_variables(each, "")) else check_address(each) for each in addresses]

    def read_addresses(self) -> list[str]:
        """Return the addresses, variables replaced by their values. Raises ConfigError if a value is no address."""
        where, found = "rollout.server.addresses", list[str]()
        for written, address in zip(self.addresses, resolve(self.addresses, "rollout.server.addresses"), strict=True):
            try:
                found.append(check_address(address))
            except ValueError as wrong:
                raise ConfigError(f"{written}: {hide(str(wrong))}", where=where, fix="mend the variable") from None
        return found


class EngineSettings(Section):
    """Which engine samples, and how its weights are checked."""

    engine: str = Field(
        default="auto",
        description=f"Engine that samples: {', '.join(f'`{name}`' for name in ENGINES)}; see [engines](engines.md). "
        "`auto` means vllm if there is a GPU and vLLM is installed, else transformers.",
    )
    engine_kwargs: dict[str, Plain] = Field(
        default={}, description="Settings of an engine that you have added, by name ([how](engines.md#add-an-engine))."
    )
    max_logprob_difference: float | None = Field(
        default=None,
        gt=0,
        le=1000,
        description="The log-probabilities of engine and trainer may differ by at most this, in nats, on canaries: "
        "random tokens that both score after every push of weights. null means 1e-4 in float32 and 0.5 in bfloat16.",
    )
    vllm: VllmSettings = VllmSettings()
    server: ServerSettings = ServerSettings()

    @property
    def kind(self) -> Any:
        """The engine's `rlft.engines.kinds.EngineKind`: what it can do, with its settings."""
        return ENGINES[self.engine](**self.engine_kwargs)

    def context_length(self, of_model: int | None) -> int | None:
        """Return how many tokens a conversation may have: what the model reads, or less where the engine has less room.

        `of_model` is `None` for a model without a limit, and so is the result if nothing limits it.
        """
        limits = [of_model, self.kind.most_tokens(self)]
        return min((limit for limit in limits if limit is not None), default=None)

    @field_validator("engine")
    @classmethod
    def _is_shipped(cls, name: str) -> str:
        if name not in ENGINES:
            raise ValueError(f"{name!r:.80} is no engine; use one of {', '.join(ENGINES)}")
        return name

    @model_validator(mode="after")
    def _suits_its_engine(self) -> Self:
        try:
            self.kind.check(self)
        except ValidationError as error:
            wrong, there = error.errors()[0], ", ".join(ENGINES[self.engine].model_fields) or "none"
            place = ".".join(map(str, ("engine_kwargs", *wrong["loc"])))
            raise ValueError(f"{place}: {wrong['msg']}; the settings of {self.engine} are: {there}") from None
        return self


class SampledConfig(EngineSettings):
    """Which engine samples, how long, and how much at the same time."""

    max_completion_length: int = Field(
        default=256, ge=1, le=MOST, description="The model may sample at most this many tokens in one turn."
    )
    batch_size: int = Field(default=256, ge=1, le=MOST, description="Rollouts sampled at the same time.")


class RolloutConfig(SampledConfig):
    """How rollouts are sampled."""

    temperature: float = Field(
        default=1.0, ge=COLDEST, le=HOTTEST, description="Sampling temperature of training rollouts."
    )

    def engine_settings(self) -> EngineSettings:
        """Return the settings that are about the engine alone."""
        return EngineSettings(**{name: getattr(self, name) for name in EngineSettings.model_fields})


Sharding: TypeAlias = Literal["full_shard", "shard_grad_op"]


class DistributedConfig(Section):
    """Rounds are trained by several processes, on one machine or on more ([how](distributed.md)), each of which has its
    part of the weights. The warm start and controls are trained in the run's own process."""

    engine: Literal["ray"] = Field(
        description="What starts the processes and watches over them: Ray (`make setup-ray`)."
    )
    trainers: int = Field(
        ge=1,
        le=1024,
        description="How many processes train. Each has a GPU of its own, or with `policy.device: cpu` a core. With 1 "
        "the run's own process trains.",
    )
    sharding: Sharding = Field(
        default="full_shard",
        description="`full_shard`: a process holds its part of the weights, and gathers one layer after the other in "
        "every pass. `shard_grad_op`: it gathers all of them once for each update, which is faster and takes as much "
        "memory for weights as one process alone. Gradients and optimizer are divided in both.",
    )
    address: str | None = Field(
        default=None,
        pattern=r"^(auto|[^/\s]+:[0-9]{1,5})$",
        description="A cluster of Ray that runs already and that this machine is part of: HOST:PORT of its head, or "
        "`auto` for the one that runs here. null starts Ray on this machine, for the run alone.",
    )
    timeout_seconds: float = Field(
        default=600.0,
        gt=0,
        le=LONGEST_SECONDS,
        description="After so long without any progress a process counts as hanging, and the run stops. It must be "
        "longer than the model takes to be loaded or stored.",
    )

    def division(self) -> DistributedConfig | None:
        """Return what the result of a round depends on: among how many it is divided, and how; `None` if not at all."""
        if self.trainers == 1:
            return None
        return DistributedConfig(engine=self.engine, trainers=self.trainers, sharding=self.sharding)
