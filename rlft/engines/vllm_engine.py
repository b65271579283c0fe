"""Samples with vLLM in this process: every policy's weights are pushed into the running vLLM and proven to be there.

vLLM is imported and started without lasting changes to torch's threads or other libraries.
"""

from __future__ import annotations

import copy
import importlib
import io
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import set_num_threads
from tqdm import tqdm

from rlft.config import EngineSettings
from rlft.engines.base import Generation, Sampling, check_request
from rlft.engines.kinds.vllm import Vllm
from rlft.engines.proof import PUSH_SECONDS, Proof
from rlft.errors import EngineError, RlftError
from rlft.files import folder_prefix, remove_left_behind
from rlft.models import Policy
from rlft.models.export import checkpoint_weights
from rlft.progress import Meter, Progress, silent

logger = logging.getLogger(__name__)
_NAME = "vLLM"
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
    try:
        Vllm().check_temperature(sampling.temperature, "rollout.temperature or evaluation.temperature")
    except ValueError as error:
        raise EngineError(str(error)) from None


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


def start_vllm(policy: Policy, settings: EngineSettings, batch_size: int) -> Any:
    """Start a vLLM of the policy's shape with random weights, and return its `LLM`.

    The policy's weights are pushed afterwards as those of every later policy are, so that there is one way only.

    Raises EngineError if vLLM is not installed, if it does not start, and for `rollout.vllm.sleep` on a CPU.
    """
    Vllm().check_library()
    own = settings.vllm
    on_gpu = policy.device.type == "cuda"
    if own.sleep and not on_gpu:
        raise EngineError("vLLM only sleeps on a GPU", where="rollout.vllm.sleep", fix="remove it")
    context = own.max_model_len or policy.context_length
    by_device = _cpu_options(settings, context, batch_size)
    if on_gpu:
        by_device = {"gpu_memory_utilization": own.gpu_memory_utilization, "enable_sleep_mode": own.sleep}
    remove_left_behind("start")
    with tempfile.TemporaryDirectory(prefix=folder_prefix("start")) as folder, vllm_environment():
        model_config(policy).save_pretrained(folder)
        policy.tokenizer.save_pretrained(folder)  # never used, but vLLM 0.32 does not start without one
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
                load_format="dummy",
                enforce_eager=not on_gpu,
                **by_device,
            )
        except Exception as cause:  # vLLM's exceptions have no common base class but this
            raise EngineError(
                f"vLLM does not start with this model: {cause}",
                where="rollout.engine",
                fix="for more room set rollout.vllm (max_model_len, cache_gib, gpu_memory_utilization); a model that "
                "vLLM does not know is sampled by rollout.engine: transformers",
            ) from cause
    logger.info("vLLM started in %.0f s", time.perf_counter() - started)
    return llm


def _cpu_options(settings: EngineSettings, context: int | None, batch_size: int) -> dict[str, Any]:
    return {
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


def reporting_bar(progress: Progress) -> Callable[..., tqdm]:
    """Return a class for `use_tqdm` of `LLM.generate`, whose bars draw nothing and report how many completions ended.

    vLLM makes two bars: one iterates over the prompts and is not reported, the other counts requests that have ended.
    """

    class Bar(tqdm):
        def __init__(self, *over: Any, **options: Any) -> None:
            # Only the bar over the prompts is given what it iterates over.
            self.meter = None if over else Meter(progress, options.get("total"), "completions")
            super().__init__(*over, **{**options, "file": io.StringIO()})

        def update(self, n: float | None = 1) -> bool | None:
            if self.meter is not None:
                self.meter.add(n or 0)
            return super().update(n)

    return Bar


class VllmEngine:
    """Samples with vLLM, `batch_size` sequences at a time; it caches prompts, so a group encodes its prompt once.

    Weights are held twice, by the trainer and by vLLM, which joins several of them into one tensor; an adapter is
    merged into those that are pushed. vLLM is started with the first policy, and again for one of another shape.
    `proof` holds what the canaries showed; `policy_hash` is the identity of the loaded policy, or an empty string.
    """

    def __init__(self, settings: EngineSettings, batch_size: int = 256) -> None:
        self.settings, self.batch_size = settings, batch_size
        self.proof = Proof(settings.max_logprob_difference)
        self.policy_hash = ""
        self.push_seconds = 0.0  # of the last push
        self._shape: tuple[str, str] = ("", "")  # what a policy must have in common with the one vLLM started with
        self._llm: Any = None
        self._asleep = False
        self._stop_ids: list[int] = []

    @property
    def metrics(self) -> dict[str, float]:
        """The last push's seconds, and how far its canaries were from the trainer's (nats)."""
        return {PUSH_SECONDS: self.push_seconds, **self.proof.metrics([_NAME])} if self.policy_hash else {}

    @vllm_threads()
    def load_policy(self, policy: Policy) -> None:
        """Push the policy's weights and prove that they arrived.

        Raises EngineError if vLLM is not installed, does not start or fails, or if its weights are not the policy's.
        """
        shape = (model_config(policy).to_json_string(), policy.metadata.dtype)
        if self._llm is not None and self._shape != shape:
            self.close()
        if policy.metadata.weights_hash and self.policy_hash == policy.identity:
            return  # these weights are there, and proven
        self.policy_hash = ""  # until the new weights are proven no policy counts as loaded
        is_first = self._llm is None
        if self._llm is None:
            self._llm, self._shape = start_vllm(policy, self.settings, self.batch_size), shape
        self._wake_up()
        self._stop_ids = stop_ids_of(policy)
        canaries = self.proof.begin(policy, self._context)
        if not is_first:
            canaries.warm_cache(self._sample)
        started = time.perf_counter()
        with self._ended_by_failure("took new weights"):
            self._push(policy)
            self._forget_prefixes()
        self.push_seconds = time.perf_counter() - started
        self.proof.check(_NAME, canaries.sample(self._sample), policy)
        self.policy_hash = policy.identity

    @vllm_threads()
    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        seeds: Sequence[int],
        progress: Progress = silent,
    ) -> list[Generation]:
        """Return one completion per prompt and seed, in the same order; a prompt that does not fit gets an error.

        Raises RuntimeError if no policy is loaded, ValueError for an empty prompt and for another number of seeds than
        of prompts, and EngineError for a temperature that vLLM does not take and if vLLM fails.
        """
        if not self.policy_hash:
            raise RuntimeError("load_policy first")
        check_request(prompts, seeds)
        check_temperature(sampling)
        self._wake_up()
        found = self._sample(prompts, sampling, seeds, progress)
        if self.settings.vllm.sleep:
            self._llm.sleep(level=1)  # moves the weights to the machine's memory and drops the cache
            self._asleep = True
        return found

    def close(self) -> None:
        """Stop vLLM and give back its memory."""
        if self._llm is None:
            return
        self._llm.llm_engine.engine_core.shutdown()
        self._llm, self.policy_hash, self._asleep = None, "", False
        self.proof = Proof(self.settings.max_logprob_difference)
        vllm_module(".distributed").cleanup_dist_env_and_memory()

    @property
    def _context(self) -> int:
        return self._llm.llm_engine.vllm_config.model_config.max_model_len

    def _wake_up(self) -> None:
        if self._asleep:
            self._llm.wake_up()
            self._asleep = False

    def _push(self, policy: Policy) -> None:
        # Copies, as vLLM may keep the tensors that it is given.
        weights = ((name, tensor.detach().clone()) for name, tensor in checkpoint_weights(policy.model))
        self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": weights})

    def _forget_prefixes(self) -> None:
        self._llm.reset_prefix_cache()

    def _sample(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        seeds: Sequence[int],
        progress: Progress = silent,
    ) -> list[Generation]:
        fits = [len(prompt) < self._context for prompt in prompts]
        rows = [place for place, fit in enumerate(fits) if fit]
        with self._ended_by_failure("sampled"):
            outputs = self._llm.generate(
                [{"prompt_token_ids": list(prompts[row])} for row in rows],
                [
                    vllm_module().SamplingParams(
                        **sampling_parameters(sampling, seeds[row], self._context - len(prompts[row]), self._stop_ids)
                    )
                    for row in rows
                ],
                use_tqdm=reporting_bar(progress),
            )
        found = dict(zip(rows, map(_generation, outputs), strict=True))
        return [
            found[place] if fit else Generation.without_room(len(prompts[place]), self._context)
            for place, fit in enumerate(fits)
        ]

    @contextmanager
    def _ended_by_failure(self, doing: str) -> Iterator[None]:
        """End vLLM if anything is raised inside, Ctrl-C too, as requests it had begun would mix with later ones.

        Raises EngineError for vLLM's exceptions.
        """
        try:
            yield
        except BaseException as cause:
            self.close()
            if isinstance(cause, RlftError) or not isinstance(cause, Exception):
                raise
            raise EngineError(
                f"vLLM failed while it {doing}: {cause}",
                where="rollout.engine",
                fix="`rlft resume` starts it anew; if it fails at once, vLLM cannot compute this model here: set "
                "rollout.engine: transformers",
            ) from cause


def _generation(output: Any) -> Generation:
    """Return what vLLM sampled for one prompt."""
    sampled = output.outputs[0]
    logprobs = [step[token].logprob for step, token in zip(sampled.logprobs or [], sampled.token_ids, strict=True)]
    return Generation(
        np.asarray(sampled.token_ids, dtype=np.int32),
        np.asarray(logprobs, dtype=np.float32),
        "stop" if sampled.finish_reason == "stop" else "length",
    )
