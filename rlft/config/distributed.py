"""The section `distributed` of a config: the rounds are trained by several processes together."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from rlft.config.bounds import LONGEST_SECONDS
from rlft.config.section import Section


class DistributedConfig(Section):
    """Several processes that train the rounds together, each with its part of the weights ([how](distributed.md)). The
    warm start and controls are trained in one."""

    engine: Literal["ray"] = Field(
        description="What starts the processes and watches over them: Ray (`make setup-ray`)."
    )
    trainers: int = Field(
        ge=1,
        le=1024,
        description="How many processes train. Each has a GPU of its own, or with `policy.device: cpu` a core.",
    )
    address: str | None = Field(
        default=None,
        description="Where Ray is. null starts it on this machine, for the run alone; nothing else is supported yet.",
    )
    timeout_seconds: float = Field(
        default=600.0,
        gt=0,
        le=LONGEST_SECONDS,
        description="After so long without any progress a process counts as hanging, and the run stops. It must be "
        "longer than the model takes to be loaded or stored.",
    )

    @field_validator("address")
    @classmethod
    def _is_this_machine(cls, address: str | None) -> str | None:
        if address is not None:
            raise ValueError(
                f"{address!r:.80}: a cluster of Ray that runs already is not supported yet; remove `address`, so that "
                "Ray is started on this machine for the run"
            )
        return address
