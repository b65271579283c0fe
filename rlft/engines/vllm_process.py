"""Imports and starts vLLM in this process, without lasting changes to torch's threads or other libraries.

Adapters are pushed to it (`vllm.lora: loaded`) while its base weights stay as they were when it started.
"""

from __future__ import annotations

import copy
import importlib
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import set_num_threads

from rlft.config import EngineSettings
from rlft.engines.base import Sampling
from rlft.engines.kinds.vllm import Vllm
from rlft.errors import EngineError
from rlft.files import folder_prefix, remove_left_behind, writing
from rlft.models import Policy
from rlft.models.export import checkpoint_weights

logger = logging.getLogger(__name__)

# Set before the first import of vLLM. Its engine shall be in this process: one of its own takes a minute to start and
# can be orphaned.
ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
}

CPU_BATCH_TOKENS = 4096  # the most tokens of a step of vLLM's; its default


def vllm_module(part: str = "") -> Any:
    """Return vLLM or one of its modules, such as `.distributed`.

    It is imported here at the first use, because it need not be installed and takes ten seconds and more to import.
    """
    return importlib.import_module(f"vllm{part}")


def check_temperature(sampling: Sampling) -> None:
    """Raise EngineError for a temperature that vLLM does not take.

    The config refuses it already if `rollout.engine` names vLLM, but not if it is `auto`.
    """
    if not Vllm().samples_at(sampling.temperature):
        low, high = Vllm.temperatures
        raise EngineError(
            f"vLLM samples at temperatures of {low:g} to {high:g}, not at {sampling.temperature:g}",
            fix="set rollout.temperature and evaluation.temperature so, or rollout.engine: transformers",
        )


def stop_ids_of(policy: Policy) -> list[int]:
    """Return the stop tokens that the model can sample: one may be none of its vocabulary, and is not named to vLLM."""
    vocabulary = policy.model.config.get_text_config().vocab_size
    return [token for token in policy.stop_token_ids() if token < vocabulary]


def sampling_parameters(sampling: Sampling, seed: int, room: int, stop_ids: Sequence[int]) -> dict[str, Any]:
    """Return vLLM's SamplingParams of a request whose prompt leaves `room` tokens of the context."""
    return {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "max_tokens": min(sampling.max_completion_length, room),
        "seed": seed,
        "logprobs": 0,  # of the sampled token, and of no others
        "stop_token_ids": list(stop_ids),
        "ignore_eos": True,  # only the policy's stop tokens end a completion, not the end token that vLLM knows
        "detokenize": False,
    }


def start_vllm(
    policy: Policy,
    settings: EngineSettings,
    batch_size: int,
    weights: Callable[[Policy, str], dict[str, Any]] | None = None,
) -> Any:
    """Start a vLLM of the policy's shape with random weights, and return its `LLM`.

    The policy's weights are pushed afterwards as those of every later policy are, so that there is one way only. With
    `weights` it starts with those instead: the function writes them into a folder and returns the arguments of vLLM
    that read them.

    Raises EngineError if vLLM is not installed, if it does not start, and for `rollout.vllm.sleep` on a CPU.
    """
    Vllm().check_library()
    own = settings.vllm
    on_gpu = policy.device.type == "cuda"
    if own.sleep and not on_gpu:
        raise EngineError("vLLM only sleeps on a GPU", where="rollout.vllm.sleep", fix="remove it")
    context = own.max_model_len or policy.context_length
    by_device = _gpu_options(settings) if on_gpu else _cpu_options(settings, context, batch_size)
    remove_left_behind("start")
    with tempfile.TemporaryDirectory(prefix=folder_prefix("start")) as folder, vllm_environment():
        model_config(policy).save_pretrained(folder)
        policy.tokenizer.save_pretrained(folder)  # never used, but vLLM 0.32 does not start without one
        by_weights = weights(policy, folder) if weights else {"load_format": "dummy"}
        started = time.perf_counter()
        try:
            llm = vllm_module().LLM(
                folder,
                runner="generate",
                dtype=policy.metadata.dtype,
                max_model_len=context,
                max_num_seqs=batch_size,
                enable_prefix_caching=True,
                logprobs_mode="processed_logprobs",  # of the distribution that is sampled from, temperature and all
                generation_config="vllm",
                **by_device,
                **by_weights,
            )
        except Exception as cause:  # vLLM's exceptions have no common base class but this
            merge = "vLLM may know this model without adapters: set rollout.vllm.lora to merged; " if weights else ""
            raise EngineError(
                f"vLLM does not start with this model: {cause}",
                where="rollout.engine",
                fix=f"{merge}for more room set rollout.vllm (max_model_len, cache_gib, gpu_memory_utilization); a "
                "model that vLLM does not know is sampled by rollout.engine: transformers",
            ) from cause
    logger.info("vLLM started in %.0f s", time.perf_counter() - started)
    return llm


def _gpu_options(settings: EngineSettings) -> dict[str, Any]:
    own = settings.vllm
    return {
        "enforce_eager": False,
        "gpu_memory_utilization": own.gpu_memory_utilization,
        "enable_sleep_mode": own.sleep,
    }


def _cpu_options(settings: EngineSettings, context: int | None, batch_size: int) -> dict[str, Any]:
    return {
        "enforce_eager": True,
        "kv_cache_memory_bytes": int(settings.vllm.cache_gib * 2**30),
        "enable_chunked_prefill": False,  # vLLM 0.32 fails on a CPU when a request with a seed is read in two pieces
        # As prompts are not read in pieces, a step must have room for the longest one.
        "max_num_batched_tokens": max(CPU_BATCH_TOKENS, context or 0, batch_size),
    }


@contextmanager
def vllm_environment() -> Iterator[None]:
    """Set vLLM's environment variables, and give torch its threads back afterwards.

    On a CPU vLLM's worker sets their number, and replaces `torch.set_num_threads` by a function that does nothing.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if (llvm := sys.modules.get("llvmlite.binding.ffi")) is not None:
        # vLLM reads the `__dict__` of every object in every module, and llvmlite's library object gives a function for
        # any attribute, that one too: so it is given an empty dict for it.
        llvm.lib._fntab.setdefault("__dict__", {})
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        set_num_threads(threads)


@contextmanager
def vllm_threads() -> Iterator[None]:
    """Give torch as many threads as when this process first used vLLM, and afterwards as many as before.

    On a CPU vLLM keeps its matrix kernels for as long as the process lives, by a matrix's shape alone. Without AVX-512
    the number of threads decides how weights are packed, so with another number later weights of an equal shape would
    be packed in one way and read in another.
    """
    threads = torch.get_num_threads()
    set_num_threads(_first_threads())
    try:
        yield
    finally:
        set_num_threads(threads)


@cache
def _first_threads() -> int:
    """Return the number of torch's threads at the first call, at every later one too."""
    return torch.get_num_threads()


def model_config(policy: Policy) -> Any:
    """Return a copy of the base model's config with the model's class and type.

    vLLM needs both; the config of a model that was never saved does not have them.
    """
    model: Any = policy.model
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    config = copy.deepcopy(base.config)
    config.architectures = [type(base).__name__]
    config.dtype = base.dtype
    return config


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
