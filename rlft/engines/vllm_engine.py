"""Samples with vLLM in this process: every policy's weights are pushed into the running vLLM and proven to be there."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from rlft.config import EngineSettings
from rlft.engines.base import Generation, Sampling, check_request
from rlft.engines.proof import PUSH_SECONDS, Proof
from rlft.engines.vllm_process import (
    LoadedAdapter,
    check_temperature,
    is_loaded,
    model_config,
    rank_for,
    sampling_parameters,
    start_vllm,
    start_with_base,
    stop_ids_of,
    vllm_module,
    vllm_threads,
)
from rlft.errors import EngineError, RlftError
from rlft.models import Policy
from rlft.models.export import checkpoint_weights
from rlft.progress import Meter, Progress, silent


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


_NAME = "vLLM"


class VllmEngine:
    """Samples with vLLM, `batch_size` sequences at a time; it caches prompts, so a group encodes its prompt once.

    Weights are held twice, by the trainer and by vLLM, which joins several of them into one tensor. vLLM is started
    with the first policy, and again for one of another shape, or on another base where adapters are loaded. `proof`
    holds what the canaries showed; `policy_hash` is the identity of the loaded policy, or an empty string.
    """

    def __init__(self, settings: EngineSettings, batch_size: int = 256) -> None:
        self.settings, self.batch_size = settings, batch_size
        self.proof = Proof(settings.max_logprob_difference)
        self.policy_hash = ""
        self.push_seconds = 0.0  # of the last push
        self._shape: tuple[str | None, ...] = ()  # what a policy must have in common with the one vLLM started with
        self._llm: Any = None
        self._adapter: LoadedAdapter | None = None
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
        loaded = is_loaded(policy, self.settings)
        shape = (model_config(policy).to_json_string(), policy.metadata.dtype)
        shape += (policy.metadata.base_hash or str(id(policy.model)), str(rank_for(policy))) if loaded else ()
        if self._llm is not None and self._shape != shape:
            self.close()
        if policy.metadata.weights_hash and self.policy_hash == policy.identity:
            return  # these weights are there, and proven
        self.policy_hash = ""  # until the new weights are proven no policy counts as loaded
        is_first = self._llm is None
        if self._llm is None:
            weights = start_with_base if loaded else None
            self._llm, self._shape = start_vllm(policy, self.settings, self.batch_size, weights), shape
            self._adapter = LoadedAdapter(self._llm) if loaded else None
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
        if self._adapter is not None:
            self._adapter.close()
        self._adapter = None
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
        if self._adapter is not None:
            self._adapter.push(policy)
            return
        weights = checkpoint_weights(policy.model)
        self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": _without_graph(weights)})

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
                lora_request=self._adapter.request if self._adapter else None,
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


def _without_graph(weights: Iterator[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
    """Copy each weight, as vLLM may keep the tensors that it is given."""
    for name, tensor in weights:
        yield name, tensor.detach().clone()


def _generation(output: Any) -> Generation:
    """Return what vLLM sampled for one prompt."""
    sampled = output.outputs[0]
    logprobs = [step[token].logprob for step, token in zip(sampled.logprobs or [], sampled.token_ids, strict=True)]
    return Generation(
        np.asarray(sampled.token_ids, dtype=np.int32),
        np.asarray(logprobs, dtype=np.float32),
        "stop" if sampled.finish_reason == "stop" else "length",
    )
