"""Pushes adapters to a vLLM (`vllm.lora: loaded`), whose base weights stay as they were when it started."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from rlft.config import EngineSettings
from rlft.engines.vllm_process import vllm_module
from rlft.errors import EngineError
from rlft.policy import Policy
from rlft.policy.weights import checkpoint_weights
from rlft.temporary import folder_prefix, remove_left_behind, writing

_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # vLLM takes these only; a smaller adapter fits a larger one


def rank_that_holds(rank: int) -> int:
    """Return the smallest rank that vLLM takes and an adapter of this `rank` fits; a larger one than all as it is."""
    return next((size for size in _RANKS if size >= rank), rank)


def is_loaded(policy: Policy, settings: EngineSettings) -> bool:
    """Return whether vLLM gets this policy's adapter as it is, and not merged into the base."""
    return policy.metadata.kind == "adapter" and settings.vllm.lora == "loaded"


def rank_for(policy: Policy) -> int:
    """Return the rank that a vLLM must be started with to hold this policy's adapter."""
    model: Any = policy.model
    adapter = model.peft_config["default"]
    return rank_that_holds(max([adapter.r, *(adapter.rank_pattern or {}).values()]))


def start_with_base(policy: Policy, folder: str) -> dict[str, Any]:
    """Write the base weights to `folder`, beside the config, and return the arguments of vLLM that read them.

    Raises StorageError if the disk does not take them.
    """
    model: Any = policy.model
    with model.disable_adapter():
        weights = {name: weight.contiguous().clone() for name, weight in checkpoint_weights(model)}
    with writing("weights for the engine", tempfile.gettempdir()):
        save_file(weights, Path(folder) / "model.safetensors", metadata={"format": "pt"})
    reads = {"load_format": "safetensors", "use_tqdm_on_load": False}
    return {**reads, "enable_lora": True, "max_lora_rank": rank_for(policy), "max_loras": 1}


class LoadedAdapter:
    """Holds the adapter that a vLLM samples with.

    Every push has a name and a number of its own, so that no cache of vLLM's can mistake one adapter for another.
    """

    def __init__(self, llm: Any) -> None:
        self._llm = llm
        self.request: Any = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._count = 0

    def push(self, policy: Policy) -> None:
        """Load the policy's adapter in place of the one before. Raises EngineError if vLLM does not take it."""
        remove_left_behind("adapter")
        model: Any = policy.model
        with writing("weights for the engine", tempfile.gettempdir()):
            folder = tempfile.TemporaryDirectory(prefix=folder_prefix("adapter"))
            model.save_pretrained(folder.name, safe_serialization=True)
        self._count += 1
        name = f"{policy.identity.replace(' ', '-')}-{self._count}"
        request = vllm_module(".lora.request").LoRARequest(name, self._count, folder.name)
        engine = self._llm.llm_engine
        if self.request is not None:
            engine.remove_lora(self.request.lora_int_id)
        try:
            engine.add_lora(request)
        except Exception as cause:  # vLLM's exceptions have no common base class but this
            raise EngineError(
                f"vLLM does not take this adapter: {cause}",
                where="rollout.vllm.lora",
                fix="set it to merged",
            ) from cause
        self.close()
        self.request, self._folder = request, folder

    def close(self) -> None:
        """Remove the adapter's files, which vLLM does not need any more, and drop the request that names it."""
        if self._folder is not None:
            self._folder.cleanup()
        self.request, self._folder = None, None
