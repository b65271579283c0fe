"""Experimental: sends full weights from the trainer's GPU to a server's, by vLLM's own weight transfer over NCCL.

The trainer is rank 0 of a group with the server's workers. The server is told what comes by its development routes, and
the tensors come by NCCL. It has not run on GPUs yet: the requests to the server are tested, the copies between GPUs are
vLLM's code.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from torch import Tensor

from rlft.engines.server_client import ServerClient
from rlft.engines.vllm_process import vllm_module
from rlft.errors import EngineError
from rlft.policy import Policy
from rlft.policy.weights import checkpoint_weights

_PART = ".distributed.weight_transfer"


class WeightTransfer:
    """Keeps a connection to one server, opened by the first policy. A server that was left out needs a new one."""

    def __init__(self, client: ServerClient) -> None:
        self._control = _Control(client)
        self._weights = _Weights()
        self._sender: Any = None

    def send(self, policy: Policy) -> None:
        """Send the policy's weights to the server.

        Raises EngineError if the policy is on a CPU or the server refuses, and ServerGoneError if it does not answer.
        """
        if policy.device.type != "cuda":
            raise EngineError(
                "weights go from GPU to GPU, and the policy is on a CPU",
                where="rollout.server.weight_transfer",
                fix="set it to folder, or policy.device to cuda",
            )
        self._weights.policy = policy
        if self._sender is None:
            nccl = vllm_module(f"{_PART}.nccl_engine")
            here, port = own_address(self._control.client.address)
            size = 1 + self._control.client.world_size()
            info = nccl.NCCLTrainerInitInfo(rank=0, master_address=here, master_port=port, world_size=size)
            sender = nccl.NCCLTrainerWeightTransferEngine
            self._sender = sender.trainer_init(info, client=self._control, source=self._weights)
        self._sender.send_weights()

    def close(self) -> None:
        """Leave the NCCL group."""
        if self._sender is not None:
            self._sender.shutdown()
            self._sender = None


class _Weights:
    """Serves vLLM as what it calls a weight source: names and shapes, then the tensors in the same order."""

    policy: Policy

    def metadata(self) -> list[Any]:
        meta = vllm_module(f"{_PART}.base").ParamMeta
        return [meta(name, weight.dtype, tuple(weight.shape)) for name, weight in self]

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        return checkpoint_weights(self.policy.model)


class _Control:
    """Serves vLLM as what it calls a weight sync client.

    No request is repeated, since the server may have begun with it.
    """

    def __init__(self, client: ServerClient) -> None:
        self.client = client

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        self.client.tell_once("/init_weight_transfer_engine", {"init_info": init_info})

    def start_weight_update(self) -> None:
        self.client.tell_once("/start_weight_update")

    def update_weights(self, update_info: dict[str, Any]) -> None:
        self.client.tell_once("/update_weights", {"update_info": update_info})

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        self.client.tell_once("/finish_weight_update", {"weight_version": weight_version})


def own_address(server: str) -> tuple[str, int]:
    """Return this machine's address on the way to the server, and a free port there."""
    parts = urlsplit(server)
    with socket.create_connection((parts.hostname or "", parts.port or 80), timeout=10) as connection:
        here = connection.getsockname()[0]
    with socket.socket(socket.AF_INET6 if ":" in here else socket.AF_INET) as free:
        free.bind((here, 0))
        return here, free.getsockname()[1]
