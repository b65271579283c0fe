"""Brings a policy's weights to running servers: as an adapter, through a folder, or from GPU to GPU.

An adapter is loaded under a name that holds the policy's hash and is used only once, so that no prefix cache of another
adapter can answer. Full weights are read by the servers from a folder, or sent by NCCL; then their prefix caches are
emptied.

NCCL, by vLLM's own weight transfer, is experimental: the trainer is rank 0 of a group with the server's workers, which
is told what comes by its development routes. It has not run on GPUs yet: the requests to the server are tested, the
copies between GPUs are vLLM's code.
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoConfig

from rlft.config import ServerSettings
from rlft.engines.server_clients import ServerClient
from rlft.engines.vllm_process import vllm_module
from rlft.errors import EngineError
from rlft.files import folder_prefix, remove_left_behind, writing
from rlft.models import Policy
from rlft.models.export import checkpoint_weights
from rlft.models.origin import LOAD_ERRORS

_SHAPE = (  # entries of a model's config that decide the shapes of its weights
    "model_type",
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "n_inner",  # GPT-2's name for it
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "tie_word_embeddings",
)


class WithEach(Protocol):
    """Calls a function with each server's client, all side by side unless `together` is false."""

    def __call__(self, action: Callable[[ServerClient], object], *, together: bool = True) -> None:
        """Call the function."""
        ...


class ServerWeights:
    """Gives weights to servers, and removes the adapters and files of earlier ones.

    `model` is the name that requests must give: an adapter's, or `None` for the server's own model. `folder` holds the
    files that the servers read; it is kept until the next weights are proven, as a server may read it again. It is made
    in `parent`, or where temporary files go.
    """

    def __init__(self, settings: ServerSettings, parent: Path | None = None) -> None:
        self.settings, self._parent = settings, parent
        self.model: str | None = None
        self.folder: tempfile.TemporaryDirectory[str] | None = None
        self._before: tempfile.TemporaryDirectory[str] | None = None
        # What the servers were given and may still have; one that was left out has its own until it is back.
        self._adapters: dict[ServerClient, list[str]] = {}
        self._transfers: dict[ServerClient, WeightTransfer] = {}

    def push(self, policy: Policy, with_each: WithEach) -> None:
        """Give the policy's weights to all servers side by side, by NCCL one after the other.

        Files are written once. Raises what `with_each` raises where a server refuses or has a model of another shape.
        """
        self._discard_before()
        remove_left_behind("weights", self._parent)
        self._before, self.folder = self.folder, None
        with_each(lambda client: refuse_another_shape(client, policy))
        if policy.metadata.kind == "adapter":
            self._load_adapter(policy, with_each)
            return
        self.model = None
        if self.settings.weight_transfer == "nccl":
            with_each(lambda client: self._send(client, policy), together=False)
        else:
            with writing("weights for the engine", str(self._parent or tempfile.gettempdir())):
                folder = self._new_folder()
                write_checkpoint(policy, folder)
            with_each(lambda client: client.reload_weights(folder))
        with_each(lambda client: client.reset_prefix_cache())

    def forget_earlier(self, clients: Sequence[ServerClient]) -> None:
        """Unload the adapters and remove the files of earlier weights; call it once the newest are proven."""
        self._unload(clients, but=self.model)
        self._discard_before()

    def close(self, clients: Sequence[ServerClient]) -> None:
        """Unload all adapters, remove all files and close the connections between GPUs."""
        self._unload(clients, but=None)
        for transfer in self._transfers.values():
            transfer.close()
        self._transfers.clear()
        self._discard_before()
        self._before, self.folder, self.model = self.folder, None, None
        self._discard_before()

    def left_out(self, client: ServerClient) -> None:
        """Drop the NCCL connection to a server that does not answer; leaving its group properly needs an answer."""
        self._transfers.pop(client, None)

    def _load_adapter(self, policy: Policy, with_each: WithEach) -> None:
        with writing("weights for the engine", str(self._parent or tempfile.gettempdir())):
            folder = self._new_folder()
            policy.model.save_pretrained(folder, safe_serialization=True)
        name = f"rlft-{policy.identity.replace(' ', '-')}-{folder.name.rpartition('-')[2]}"
        self.model = name

        def load(client: ServerClient) -> None:
            self._adapters.setdefault(client, []).append(name)
            client.load_adapter(name, folder)

        with_each(load)

    def _send(self, client: ServerClient, policy: Policy) -> None:
        if client not in self._transfers:
            self._transfers[client] = WeightTransfer(client)
        self._transfers[client].send(policy)

    def _unload(self, clients: Sequence[ServerClient], *, but: str | None) -> None:
        for client in clients:
            known = self._adapters.pop(client, [])
            for name in known:
                if name != but:
                    client.unload_adapter(name)
            self._adapters[client] = [name for name in known if name == but]

    def _new_folder(self) -> Path:
        self.folder = tempfile.TemporaryDirectory(prefix=folder_prefix("weights"), dir=self._parent)
        return Path(self.folder.name)

    def _discard_before(self) -> None:
        if self._before is not None:
            self._before.cleanup()
            self._before = None


def refuse_another_shape(client: ServerClient, policy: Policy) -> None:
    """Raise EngineError if the server was started with a model of another shape.

    Full weights would break it, and of an adapter vLLM silently leaves out layers that its model does not have. What
    the server does not say, or this machine cannot read, is not compared.
    """
    base = client.base_model()
    try:
        served = AutoConfig.from_pretrained(base, local_files_only=True).get_text_config() if base else None
    except LOAD_ERRORS:
        served = None
    own = policy.model.config.get_text_config()
    for name in _SHAPE if served else ():
        theirs, ours = getattr(served, name, None), getattr(own, name, None)
        if theirs != ours:
            raise EngineError(
                f"{client.address} was started with {base}, whose {name} is {theirs}; the policy's is {ours}",
                where="rollout.server",
                fix="start one for this policy (`rlft serve-engine CONFIG`)",
            )


def write_checkpoint(policy: Policy, folder: Path) -> None:
    """Write a checkpoint with tied weights under each of their names.

    `save_pretrained` writes them once, and then vLLM on a CPU would keep its old output layer.
    """
    weights = {name: weight.contiguous().clone() for name, weight in checkpoint_weights(policy.model)}
    policy.model.config.save_pretrained(folder)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


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
