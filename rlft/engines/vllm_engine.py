"""vLLM in this process. Every new policy's weights are pushed into the running engine, and proven to be there."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from rlft.config import EngineSettings
from rlft.engines.base import Generation, Sampling
from rlft.engines.proof import CANARY_DIFFERENCE, PUSH_SECONDS, Canaries, Evidence, check_evidence
from rlft.errors import EngineError
from rlft.policy import Policy
from rlft.policy.weights import checkpoint_weights

logger = logging.getLogger(__name__)

# Before the first import of vLLM. In one process: an engine of its own takes a minute to start and can be orphaned.
_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
}

_CPU_BATCH_TOKENS = 4096  # of a step; vLLM's default


def is_installed() -> bool:
    """Whether vLLM can be imported; it is not imported."""
    return importlib.util.find_spec("vllm") is not None


def _vllm(part: str = "") -> Any:
    """vLLM, which is not everywhere; importing it takes ten seconds and more."""
    return importlib.import_module(f"vllm{part}")


class VllmEngine:
    """Samples with vLLM; prompts are cached by their tokens, so a group encodes its prompt once.

    Weights are held twice, by the trainer and by vLLM, which joins several of them into one tensor. The engine starts
    with the first policy and again for one of another shape.
    """

    def __init__(self, settings: EngineSettings, batch_size: int = 256) -> None:
        self.settings, self.batch_size = settings, batch_size
        self.evidence: Evidence | None = None
        self.push_seconds = 0.0  # of the last push
        self._shape: tuple[str, str] | None = None
        self._llm: Any = None
        self._canaries: Canaries | None = None
        self._stop_ids: list[int] = []

    @property
    def policy_hash(self) -> str:
        """Identity of the loaded policy, or an empty string."""
        return self.evidence.policy if self.evidence else ""

    @property
    def metrics(self) -> dict[str, float]:
        """Of the last push: its seconds, and how far the engine's canaries were from the trainer's, in nats."""
        if self.evidence is None:
            return {}
        return {PUSH_SECONDS: self.push_seconds, CANARY_DIFFERENCE: self.evidence.difference}

    def load_policy(self, policy: Policy) -> None:
        """Push the policy's weights and prove that they arrived. Raises EngineError."""
        shape = (_model_config(policy).to_json_string(), policy.metadata.dtype)
        if self._llm is not None and self._shape != shape:
            self.close()
        if policy.metadata.weights_hash and self.policy_hash == policy.identity:
            return  # it is there, and proven
        before, self.evidence = self.evidence, None  # until the new weights are proven there are none
        if self._llm is None:
            self._llm, self._shape = _start(policy, self.settings, self.batch_size), shape
        stop_ids = policy.stop_token_ids()
        self._stop_ids = [token for token in stop_ids if token < policy.model.config.get_text_config().vocab_size]
        canaries = self._canaries or Canaries(policy.model.config.get_text_config().vocab_size, self._context)
        if self._canaries is not None:
            canaries.warm_cache(self._sample)
        self._canaries = canaries
        started = time.perf_counter()
        self._push(policy)
        self._forget_prefixes()
        self.push_seconds = time.perf_counter() - started
        evidence = canaries.ask(self._sample, policy)
        check_evidence(evidence, before, policy.metadata.dtype, self.settings.max_logprob_difference)
        self.evidence = evidence

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]) -> list[Generation]:
        """One completion per prompt and seed, in the same order; a prompt that does not fit gets an error.

        Raises RuntimeError when no policy is loaded, ValueError for an empty prompt and for another number of seeds.
        """
        if self.evidence is None:
            raise RuntimeError("load_policy first")
        if len(seeds) != len(prompts):
            raise ValueError(f"{len(prompts)} prompts need as many seeds, not {len(seeds)}")
        if not all(map(len, prompts)):
            raise ValueError(f"prompt {[len(prompt) for prompt in prompts].index(0)} has no token to go on from")
        return self._sample(prompts, sampling, seeds)

    def close(self) -> None:
        """Stop vLLM and give back its memory."""
        if self._llm is None:
            return
        self._llm.llm_engine.engine_core.shutdown()
        self._llm, self._canaries, self.evidence = None, None, None
        _vllm(".distributed").cleanup_dist_env_and_memory()

    @property
    def _context(self) -> int:
        return self._llm.llm_engine.vllm_config.model_config.max_model_len

    def _push(self, policy: Policy) -> None:
        weights = checkpoint_weights(policy.model)
        self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": _without_graph(weights)})

    def _forget_prefixes(self) -> None:
        self._llm.reset_prefix_cache()

    def _sample(self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]) -> list[Generation]:
        fits = [len(prompt) < self._context for prompt in prompts]
        rows = [place for place, fit in enumerate(fits) if fit]
        try:
            outputs = self._llm.generate(
                [{"prompt_token_ids": list(prompts[row])} for row in rows],
                [self._parameters(sampling, seeds[row], self._context - len(prompts[row])) for row in rows],
                use_tqdm=False,
            )
        except (RuntimeError, ValueError, AssertionError) as cause:
            self.close()  # what it had begun would mix with what comes next
            raise EngineError(
                f"vLLM failed while it sampled: {cause}",
                where="rollout.engine",
                fix="`rlft resume` starts it anew; if it fails at once, vLLM cannot compute this model here: set "
                "rollout.engine: transformers",
            ) from cause
        found = dict(zip(rows, map(_generation, outputs), strict=True))
        too_long = "prompt: {} tokens leave no room in the engine's context of {}"
        return [
            found[place] if fit else Generation.failed(too_long.format(len(prompts[place]), self._context))
            for place, fit in enumerate(fits)
        ]

    def _parameters(self, sampling: Sampling, seed: int, room: int) -> Any:
        return _vllm().SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            max_tokens=min(sampling.max_completion_length, room),
            seed=seed,
            logprobs=0,  # of the sampled token alone
            stop_token_ids=self._stop_ids,
            ignore_eos=True,  # the policy's stop tokens are named, nothing else stops
            detokenize=False,
        )


def _start(policy: Policy, settings: EngineSettings, batch_size: int) -> Any:
    """A vLLM of the policy's shape, with random weights: the real ones come as every later policy's do."""
    if not is_installed():
        raise EngineError(
            "vLLM is not installed",
            where="rollout.engine",
            fix="make setup-vllm, or set rollout.engine: transformers",
        )
    own = settings.vllm
    on_gpu = policy.device.type == "cuda"
    context = own.max_model_len or policy.context_length
    by_device: dict[str, Any] = {
        "enforce_eager": True,
        "kv_cache_memory_bytes": int(own.cache_gib * 2**30),
        "enable_chunked_prefill": False,  # vLLM 0.32 fails on a CPU when a request with a seed is read in two pieces
        "max_num_batched_tokens": max(_CPU_BATCH_TOKENS, context or 0, batch_size),  # so a step must hold any prompt
    }
    if on_gpu:
        by_device = {"enforce_eager": False, "gpu_memory_utilization": own.gpu_memory_utilization}
    with tempfile.TemporaryDirectory() as folder, _vllm_environment():
        _model_config(policy).save_pretrained(folder)
        policy.tokenizer.save_pretrained(folder)  # never used, but vLLM 0.32 does not start without one
        started = time.perf_counter()
        try:
            llm = _vllm().LLM(
                folder,
                runner="generate",
                load_format="dummy",
                dtype=policy.metadata.dtype,
                max_model_len=context,
                max_num_seqs=batch_size,
                enable_prefix_caching=True,
                logprobs_mode="processed_logprobs",  # of the distribution that is sampled from, temperature and all
                generation_config="vllm",
                **by_device,
            )
        except (ValueError, RuntimeError, ImportError, NotImplementedError, AssertionError, OSError) as cause:
            raise EngineError(
                f"vLLM does not start with this model: {cause}",
                where="rollout.engine",
                fix="for more room set rollout.vllm (max_model_len, cache_gib, gpu_memory_utilization); a model that "
                "vLLM does not know is sampled by rollout.engine: transformers",
            ) from cause
    logger.info("vLLM started in %.0f s", time.perf_counter() - started)
    return llm


@contextmanager
def _vllm_environment() -> Iterator[None]:
    """vLLM's settings, and afterwards torch's threads as they were: on a CPU its worker takes them over."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if (llvm := sys.modules.get("llvmlite.binding.ffi")) is not None:
        # vLLM reads the `__dict__` of every object of every module; llvmlite's library gives a function for any name.
        llvm.lib._fntab.setdefault("__dict__", {})
    set_threads, threads = torch.set_num_threads, torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads = set_threads
        torch.set_num_threads(threads)


def _model_config(policy: Policy) -> Any:
    """The base model's, with the name and type of its class, which models that were never saved do not note."""
    model: Any = policy.model
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    config = copy.deepcopy(base.config)
    config.architectures = [type(base).__name__]
    config.dtype = base.dtype
    return config


def _without_graph(weights: Iterator[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
    """vLLM may keep what it is given."""
    for name, tensor in weights:
        yield name, tensor.detach().clone()


def _generation(output: Any) -> Generation:
    """What vLLM sampled for one prompt."""
    sampled = output.outputs[0]
    logprobs = [step[token].logprob for step, token in zip(sampled.logprobs or [], sampled.token_ids, strict=True)]
    return Generation(
        np.asarray(sampled.token_ids, dtype=np.int32),
        np.asarray(logprobs, dtype=np.float32),
        "stop" if sampled.finish_reason == "stop" else "length",
    )
