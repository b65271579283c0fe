"""The section `distributed` of a config: what is done by processes that Ray starts."""

from __future__ import annotations

import ipaddress
import re
from typing import Literal, TypeAlias

from pydantic import Field, field_validator

from rlft.config.addresses import refuse_metadata
from rlft.config.bounds import LONGEST_SECONDS
from rlft.config.section import Section

Sharding: TypeAlias = Literal["full_shard", "shard_grad_op"]
_LABEL = re.compile("[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?", re.IGNORECASE)


class DistributedConfig(Section):
    """Work that is given to several processes, on one machine or on more ([how](distributed.md)): training of rounds,
    in which each has its part of the weights, and `rollout.server.engines`. The warm start and controls are trained in
    the run's own process."""

    engine: Literal["ray"] = Field(
        description="What starts the processes and watches over them: Ray (`make setup-ray`)."
    )
    trainers: int = Field(
        default=1,
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

    @field_validator("address")
    @classmethod
    def _can_be_joined(cls, address: str | None) -> str | None:
        if address is None or address == "auto":
            return address
        if address.startswith("ray://"):
            raise ValueError(
                f"{address!r:.80}: Ray's client is for programs outside of a cluster, and the trainers must see the "
                "policies of the run; start the run on a machine of the cluster, with `auto` or HOST:PORT"
            )
        host, _, port = address.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f"{address!r:.80} is neither `auto` nor HOST:PORT, as `ray start` prints it")
        if _is_host(f"[{host}]"):
            raise ValueError(f"{address!r:.80} has an IPv6 address without brackets: write [{host}]:{port}")
        if not _is_host(host):
            raise ValueError(f"{address!r:.80} has a host that no machine can be called; write HOST:PORT")
        refuse_metadata(f"//{address}")  # whoever answers there is told the cluster's token
        return address


def _is_host(host: str) -> bool:
    """Return whether a host is an IPv6 address in brackets, or a name that the DNS can have, as IPv4 addresses are."""
    try:
        if host.startswith("["):
            return host.endswith("]") and ipaddress.ip_address(host[1:-1]).version == 6
        return all(_LABEL.fullmatch(label) for label in host.encode("idna").decode().removesuffix(".").split("."))
    except ValueError:  # UnicodeError is one
        return False
