"""What samples, and how."""

from __future__ import annotations

from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from rlft.config.section import Section, changed

# vLLM 0.32 takes a smaller one for 0.01, log-probabilities and all, and refuses a larger one. 0 is greedy.
VLLM_TEMPERATURES = (0.01, 2.0)


def suits_vllm(temperature: float) -> bool:
    """Whether vLLM samples at this temperature."""
    return temperature == 0 or VLLM_TEMPERATURES[0] <= temperature <= VLLM_TEMPERATURES[1]


class VllmSettings(Section):
    """vLLM in the process; it holds its own copy of the weights."""

    max_model_len: int | None = Field(default=None, ge=2, description="Prompt and completion; null: the context.")
    cache_gib: float = Field(default=1.0, gt=0, description="Keys and values on a CPU, GiB.")
    gpu_memory_utilization: float = Field(
        default=0.4,
        gt=0,
        lt=1,
        description="Share of a GPU's memory for vLLM, weights and cache; training has the rest.",
    )
    lora: Literal["merged", "loaded"] = Field(
        default="merged",
        description="An adapter goes into the base weights of each push, or is loaded beside them (smaller pushes; "
        "slower on a CPU).",
    )
    sleep: bool = Field(
        default=False, description="Give the GPU's memory back after sampling; a round then waits for the weights."
    )


class ServerSettings(Section):
    """Running `vllm serve` processes that see this machine's files (`rlft serve-engine` starts one)."""

    addresses: list[str] = Field(default=[], description="Such as http://127.0.0.1:8000; the rollouts are shared out.")
    concurrency: int = Field(default=64, ge=1, description="Requests at the same time to each.")
    timeout_seconds: float = Field(default=600.0, gt=0, description="For one request.")
    attempts: int = Field(default=3, ge=1, description="For one request, before its rollout is an error.")
    weight_transfer: Literal["folder", "nccl"] = Field(
        default="folder", description="How full weights come to a server: files, or from GPU to GPU."
    )


class EngineSettings(Section):
    """What samples, and how its weights are checked."""

    engine: Literal["auto", "transformers", "vllm", "vllm_server"] = Field(
        default="auto", description="auto: vllm on a GPU where it is installed, else transformers."
    )
    max_logprob_difference: float | None = Field(
        default=None, gt=0, description="Engine and trainer, canary tokens, nats; null: by the type of the weights."
    )
    vllm: VllmSettings = VllmSettings()
    server: ServerSettings = ServerSettings()

    @model_validator(mode="after")
    def _servers_have_addresses(self) -> Self:
        seen: set[str] = set()
        for address in self.server.addresses:
            try:
                parts = urlsplit(address)
                is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
                is_one = is_one and parts.path in ("", "/") and not set(address) & set("?#@")
                is_one = is_one and address.isprintable() and " " not in address  # urlsplit drops some of it
                (parts.hostname or "").encode("idna")
            except ValueError:  # brackets, a port or a host's name that make no sense
                is_one = False
            if not is_one or address.rstrip("/") in seen:
                what = "stands twice" if is_one else "is no address such as http://127.0.0.1:8000"
                shown = "what has an @, and may hold a password," if "@" in address else repr(address)
                raise ValueError(f"server.addresses: {shown} {what}")
            seen.add(address.rstrip("/"))
        return self

    @model_validator(mode="after")
    def _a_server_is_named(self) -> Self:
        if self.engine == "vllm_server" and not self.server.addresses:
            raise ValueError(
                "engine vllm_server needs server.addresses, such as [http://127.0.0.1:8000]; `rlft serve-engine "
                "CONFIG` starts a server there"
            )
        return self


class RolloutConfig(EngineSettings):
    """How rollouts are sampled."""

    max_completion_length: int = Field(default=256, ge=1, description="Tokens.")
    temperature: float = Field(default=1.0, gt=0)
    batch_size: int = Field(default=256, ge=1, description="Rollouts sampled at the same time.")
    top_p: float = Field(default=1.0, description="Only 1: see evaluation.top_p.")
    top_k: int = Field(default=0, description="Only 0: see evaluation.top_k.")
    min_p: float = Field(default=0.0, description="Only 0: see evaluation.min_p.")

    def engine_settings(self) -> EngineSettings:
        """Those of the settings that are about the engine."""
        return EngineSettings(**{name: getattr(self, name) for name in EngineSettings.model_fields})

    @model_validator(mode="after")
    def _samples_the_policy_itself(self) -> Self:
        for name, value in changed(self, "top_p", "top_k", "min_p").items():
            raise ValueError(
                f"{name}={value}: truncated sampling is for evaluation; remove it here and set evaluation.{name} "
                "(training needs samples of the whole distribution whose probabilities it changes)"
            )
        return self
