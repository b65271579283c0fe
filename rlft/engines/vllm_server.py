"""Samples with running `vllm serve` processes: token ids and seeds go over HTTP, weights through files or by NCCL.

The server of a request follows from its prompt, so that a group shares its cached prompt. A server that stops answering
is left out until the next policy comes, and its rollouts go to another one; what no server answers is an error of that
rollout.
"""

from __future__ import annotations

import logging
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np

from rlft.config import EngineSettings
from rlft.engines.base import Generation, Sampling, check_request
from rlft.engines.checksums import PolicyChecksums, ServerChecksums, of_all_workers
from rlft.engines.proof import PUSH_SECONDS, SERVERS, Canaries, Evidence, check_evidence
from rlft.engines.readback import WEIGHTS_COMPARED
from rlft.engines.server_client import ServerClient
from rlft.engines.server_requests import ServerGoneError, ServerRefusedError
from rlft.engines.server_weights import ServerWeights
from rlft.engines.vllm_process import check_temperature
from rlft.errors import EngineError
from rlft.policy import Policy
from rlft.progress import Meter, Progress, silent

logger = logging.getLogger(__name__)
_THREADS = 1024  # the most threads that wait for several servers


class VllmServerEngine:
    """Samples with any number of servers that all get the same weights, by `rlft.engines.server_weights`."""

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self.clients = [ServerClient(address, settings.server) for address in settings.server.read_addresses()]
        self.live: list[ServerClient] = []  # those that have answered since the last push, and so have the policy
        self.evidence: dict[str, Evidence] = {}  # of the last push, by address
        self.identity = ""
        self._weights = ServerWeights(settings.server)
        self._stop_ids: list[int] = []
        self._canaries: Canaries | None = None
        self._context = 0
        self.push_seconds, self._dtype = 0.0, ""
        self._checksums: dict[str, ServerChecksums] = {}  # by address, where full weights are given
        self._lock = threading.Lock()  # held while `live` is changed, as the threads of `generate` may do

    @property
    def policy_hash(self) -> str:
        """The identity of the loaded policy, or an empty string."""
        return self.identity

    @property
    def metrics(self) -> dict[str, float]:
        """The last push's seconds, what its proof found on the worst server, and how many servers are left."""
        if not self.identity:
            return {}
        found = [self.evidence[client.address].metrics(self._dtype) for client in self.live]
        worst = {name: max(metrics[name] for metrics in found) for name in (found[0] if found else ())}
        if self._checksums:
            worst[WEIGHTS_COMPARED] = min(checksums.compared for checksums in self._checksums.values())
        return {PUSH_SECONDS: self.push_seconds, **worst, SERVERS: float(len(self.live))}

    def load_policy(self, policy: Policy) -> None:
        """Give the weights to every server that answers, and prove that they have arrived.

        Raises EngineError if a server has other weights or refuses them, and if none answers.
        """
        if policy.metadata.weights_hash and self.identity == policy.identity and self._still_there(policy):
            return
        had_weights, self.live, self.identity = self.live if self.identity else [], list(self.clients), ""
        canaries = self._prepare(policy, had_weights)
        started = time.perf_counter()
        self._weights.push(policy, self._with_each)
        self.push_seconds = time.perf_counter() - started
        self._read_back(policy)
        self._with_each(lambda client: self._prove(client, canaries, policy))
        self._dtype = policy.metadata.dtype
        self._weights.forget_earlier(self.live)
        self.identity = policy.identity

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        seeds: Sequence[int],
        progress: Progress = silent,
    ) -> list[Generation]:
        """Return one completion per prompt and seed, in the same order; one that no server gave has an error.

        Raises RuntimeError if no policy is loaded, ValueError for an empty prompt and for another number of seeds than
        of prompts, and EngineError for a temperature that vLLM does not take.
        """
        if not self.identity:
            raise RuntimeError("load_policy first")
        check_request(prompts, seeds)
        check_temperature(sampling)

        slots = {client: threading.Semaphore(self.settings.server.concurrency) for client in self.clients}
        meter = Meter(progress, len(prompts), "completions")

        def one(prompt: Sequence[int], seed: int) -> Generation:
            found = ask(prompt, seed)
            meter.add(tokens=len(found.token_ids))
            return found

        def ask(prompt: Sequence[int], seed: int) -> Generation:
            reason = "no server is left"
            while live := self.live:
                client = live[zlib.crc32(np.asarray(prompt, dtype=np.int64).tobytes()) % len(live)]
                try:
                    with slots[client]:
                        if client not in self.live:  # it was left out while this request waited for a slot
                            continue
                        return self._ask(client, prompt, sampling, seed)
                except ServerRefusedError as refused:
                    return Generation.failed("engine", str(refused))
                except ServerGoneError as cause:
                    reason = str(cause)
                    self._leave_out(client, cause)
            return Generation.failed("engine", reason)

        # More threads than slots, so that those which wait for a server that hangs leave enough for the others.
        threads = _THREADS if len(self.clients) > 1 else self.settings.server.concurrency
        with ThreadPoolExecutor(max(1, min(len(prompts), threads))) as pool:
            return list(pool.map(one, prompts, seeds))

    def close(self) -> None:
        """Unload what this engine loaded and close the connections; the servers keep running."""
        self._weights.close(self.live)
        for client in self.clients:
            client.close()
        self.identity, self.live = "", []
        self.evidence.clear()
        self._checksums.clear()

    def _with_each(self, action: Callable[[ServerClient], object]) -> None:
        """Call `action` with every live server, and leave out those that do not answer.

        Raises EngineError if none is left.
        """
        cause: ServerGoneError | None = None
        for client in self.live:
            try:
                action(client)
            except ServerGoneError as error:
                cause = error
                self._leave_out(client, error)
        if not self.live:
            raise EngineError(
                str(cause), where="rollout.server", fix="start it again (`rlft serve-engine CONFIG`)"
            ) from cause

    def _leave_out(self, client: ServerClient, cause: ServerGoneError) -> None:
        """Do without a server until the next policy comes, as nobody knows which weights it has once it is back."""
        with self._lock:
            if client not in self.live:
                return
            self.live = [other for other in self.live if other is not client]
            self._weights.left_out(client)
            self._checksums.pop(client.address, None)
        logger.warning("%s; %d of %d servers left", cause, len(self.live), len(self.clients))

    def _prepare(self, policy: Policy, had_weights: Sequence[ServerClient]) -> Canaries:
        """Note the policy's stop tokens and the servers' smallest context, and return the canaries.

        Servers that have weights already get the longest canary in their caches, to show if these are not emptied.
        """
        vocabulary = policy.model.config.get_text_config().vocab_size
        self._stop_ids = [token for token in policy.stop_token_ids() if token < vocabulary]
        contexts: list[int] = []
        self._with_each(lambda client: contexts.append(client.context_length()))
        self._context = min(contexts)
        if self._canaries is None:
            self._canaries = Canaries(vocabulary, self._context)
        canaries = self._canaries
        for client in had_weights:
            with suppress(EngineError, ServerGoneError):  # one that has lost its weights has no stale cache either
                canaries.warm_cache(self._sampler(client))
        return canaries

    def _still_there(self, policy: Policy) -> bool:
        """Return whether the live servers still have this policy.

        A server that was started again has other full weights and answers all the same, so it is asked the canaries.
        """
        if self._weights.model is not None or self._canaries is None:
            return bool(self.live)  # requests name the adapter, by its hash, so such a server would refuse them
        try:
            for client in self.live:
                self._prove(client, self._canaries, policy)
        except (EngineError, ServerGoneError) as cause:
            logger.warning("the weights are given to the servers again: %s", cause)
            return False
        return bool(self.live)

    def _read_back(self, policy: Policy) -> None:
        """Compare the checksums of full weights. A server of adapters has no route for it, and its base stays."""
        if self._weights.model is not None:
            return
        ours = PolicyChecksums(policy)

        def compare(client: ServerClient) -> None:
            theirs = of_all_workers(client.weight_checksums())
            self._checksums.setdefault(client.address, ServerChecksums()).check(theirs, ours, client.address)

        self._with_each(compare)

    def _prove(self, client: ServerClient, canaries: Canaries, policy: Policy) -> None:
        evidence = canaries.ask(self._sampler(client), policy)
        before, limit = self.evidence.get(client.address), self.settings.max_logprob_difference
        dtype = policy.metadata.dtype
        self.evidence[client.address] = check_evidence(evidence, before, dtype, limit, engine=client.address)

    def _sampler(self, client: ServerClient) -> Any:
        """Return a function that samples with one server alone, for its canaries."""

        def generate(prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]) -> list[Generation]:
            try:
                with ThreadPoolExecutor(max(1, min(len(prompts), self.settings.server.concurrency))) as pool:
                    return list(pool.map(partial(self._ask, client), prompts, repeat(sampling), seeds))
            except ServerRefusedError as cause:
                raise EngineError(
                    str(cause), where="rollout.server", fix="start it again (`rlft serve-engine CONFIG`)"
                ) from cause

        return generate

    def _ask(self, client: ServerClient, prompt: Sequence[int], sampling: Sampling, seed: int) -> Generation:
        room = self._context - len(prompt)
        if room < 1:
            return Generation.without_room(len(prompt), self._context)
        return client.generate(
            prompt,
            {
                "temperature": sampling.temperature,
                "top_p": sampling.top_p,
                "top_k": sampling.top_k,
                "min_p": sampling.min_p,
                "max_tokens": min(sampling.max_completion_length, room),
                "seed": seed,
                "logprobs": 0,
                "stop_token_ids": self._stop_ids,
                "ignore_eos": True,
                "detokenize": False,
            },
            model=self._weights.model,
        )
