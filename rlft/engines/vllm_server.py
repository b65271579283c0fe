"""Samples with running `vllm serve` processes: token ids and seeds go over HTTP, weights through files or by NCCL.

A group is sampled by the server where the fewest rollouts are live (`division`), which then has its prompt in its
cache. Which server that is changes no result, as each rollout has its own seed. A server that stops answering is left
out until the next policy comes, and its rollouts go to another one; what no server answers is an error of that rollout.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, Protocol

from rlft.config import EngineSettings
from rlft.engines.base import Generation, Sampling, check_request
from rlft.engines.ordered import Served
from rlft.engines.proof import PUSH_SECONDS, SERVERS, Canaries, Evidence, check_evidence
from rlft.engines.readback import WEIGHTS_COMPARED, PolicyChecksums, ServerChecksums, of_all_workers
from rlft.engines.server_clients import Failure, LoadBalancer, ServerClient, ServerSet, alike
from rlft.engines.server_requests import ServerGoneError, ServerRefusedError
from rlft.engines.server_weights import ServerWeights
from rlft.engines.vllm_process import check_temperature
from rlft.errors import EngineError
from rlft.models import Policy
from rlft.progress import Meter, Progress, silent

logger = logging.getLogger(__name__)
_SERVE = "start it again (`rlft serve-engine CONFIG`)"
_RESUME = "`rlft resume` goes on with the run, and starts engines anew"


class Starter(Protocol):
    """Starts the servers of an engine where none are named."""

    @property
    def folder(self) -> Path:
        """Where files are that the servers must see."""
        ...

    def start(self, policy: Policy) -> Sequence[Served]:
        """Return servers that answer and have a model of the policy's shape. Raises RlftError."""
        ...


class VllmServerEngine:
    """Samples with any number of servers that all get the same weights, by `rlft.engines.server_weights`.

    They are those that the settings name, or those that `starter` starts for the first policy; it ends them, too.
    """

    def __init__(self, settings: EngineSettings, starter: Starter | None = None) -> None:
        self.settings, self._starter = settings, starter
        clients = [ServerClient(address, settings.server) for address in settings.server.read_addresses()]
        self.servers = ServerSet(clients, self._dropped, fix=_RESUME if starter else _SERVE)
        self.evidence: dict[str, Evidence] = {}  # of the last push, by address
        self.identity = ""
        self._weights = ServerWeights(settings.server, None if starter is None else starter.folder)
        self._dead: list[ServerClient] = []  # of those that the starter has started
        self._stop_ids: list[int] = []
        self._canaries: Canaries | None = None
        self._context = 0
        self.push_seconds, self._dtype = 0.0, ""
        self._checksums: dict[str, ServerChecksums] = {}  # by address, where full weights are given

    @property
    def policy_hash(self) -> str:
        """The identity of the loaded policy, or an empty string."""
        return self.identity

    @property
    def metrics(self) -> dict[str, float]:
        """The last push's seconds, what its proof found on the worst server, and how many servers are left."""
        if not self.identity:
            return {}
        live = self.servers.live
        found = [self.evidence[client.address].metrics(self._dtype) for client in live]
        worst = {name: max(metrics[name] for metrics in found) for name in (found[0] if found else ())}
        if compared := [known.compared for client in live if (known := self._checksums.get(client.address))]:
            worst[WEIGHTS_COMPARED] = min(compared)
        return {PUSH_SECONDS: self.push_seconds, **worst, SERVERS: float(len(live))}

    def load_policy(self, policy: Policy) -> None:
        """Give the weights to every server that answers, and prove that they have arrived.

        Raises EngineError if a server has other weights or refuses them, and if none answers; and what the starter
        raises.
        """
        if policy.metadata.weights_hash and self.identity == policy.identity and self._still_there(policy):
            return
        servers = self.servers
        if self._starter is not None and not servers.clients:
            started = self._starter.start(policy)
            servers.clients = [ServerClient(each.address, self.settings.server, each.key) for each in started]
        had_weights, self.identity = servers.live if self.identity else [], ""
        servers.live = [client for client in servers.clients if client not in self._dead] or list(servers.clients)
        canaries = self._prepare(policy, had_weights)
        started = time.perf_counter()
        self._weights.push(policy, servers.each)
        self.push_seconds = time.perf_counter() - started
        self._read_back(policy)
        self._prove(canaries, policy)
        self._dtype = policy.metadata.dtype
        self._weights.forget_earlier(servers.live)
        self.identity, servers.proven = policy.identity, True

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

        found = [Generation.failed("engine", "no server is left")] * len(prompts)
        width, meter = self.settings.server.concurrency, Meter(progress, len(prompts), "completions")

        def ask(client: ServerClient, place: int) -> bool:
            if client not in self.servers.live:  # it was left out while this request waited for it
                return False
            try:
                found[place] = self._ask(client, prompts[place], sampling, seeds[place])
            except ServerRefusedError as refused:
                found[place] = Generation.failed("engine", str(refused))
            except ServerGoneError as cause:
                found[place] = Generation.failed("engine", str(cause))  # unless another server answers
                self.servers.leave_out(client, cause)
                return False
            meter.add(tokens=len(found[place].token_ids))
            return True

        division = LoadBalancer(
            self.servers.clients, lambda: self.servers.live, ask, lambda place: meter.add(), width=width
        )
        division.make(alike(prompts, width))
        return found

    def close(self) -> None:
        """Unload what this engine loaded and close the connections; the servers keep running."""
        self._weights.close(self.servers.live)
        self.servers.close()
        self.identity = ""
        self.evidence.clear()
        self._checksums.clear()

    def _dropped(self, client: ServerClient, cause: Failure) -> None:
        self._weights.left_out(client)
        if isinstance(cause, ServerGoneError):  # what comes back there may be another server, known from its first push
            self._checksums.pop(client.address, None)
            if self._starter is not None and not cause.status:
                self._dead.append(client)  # nobody starts it again: it would cost each push all its attempts

    def _prepare(self, policy: Policy, had_weights: Sequence[ServerClient]) -> Canaries:
        """Note the policy's stop tokens and the servers' smallest context, and return the canaries.

        Servers that have weights already get the longest canary in their caches, to show if these are not emptied.
        """
        vocabulary = policy.model.config.get_text_config().vocab_size
        self._stop_ids = [token for token in policy.stop_token_ids() if token < vocabulary]
        contexts: list[int] = []
        self.servers.each(lambda client: contexts.append(client.context_length()))
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
            return bool(self.servers.live)  # requests name the adapter, by its hash: such a server would refuse them
        before = self.servers.live
        try:
            self._prove(self._canaries, policy)
        except EngineError as cause:
            logger.warning("the weights are given to the servers again: %s", cause)
        return self.servers.live == before

    def _read_back(self, policy: Policy) -> None:
        """Compare the checksums of full weights. A server of adapters has no route for it, and its base stays."""
        if self._weights.model is not None:
            return
        ours = PolicyChecksums(policy)

        def compare(client: ServerClient) -> None:
            theirs = of_all_workers(client.weight_checksums())
            self._checksums.setdefault(client.address, ServerChecksums()).check(theirs, ours, client.address)

        self.servers.each(compare)

    def _prove(self, canaries: Canaries, policy: Policy) -> None:
        """Ask all servers their canaries side by side; then the policy's model scores them, in this thread alone."""
        found: dict[ServerClient, list[Generation]] = {}

        def sample(client: ServerClient) -> None:
            found[client] = canaries.sample(self._sampler(client))

        def check(client: ServerClient) -> None:
            evidence = canaries.compare(found[client], policy)
            before, limit = self.evidence.get(client.address), self.settings.max_logprob_difference
            dtype = policy.metadata.dtype
            self.evidence[client.address] = check_evidence(evidence, before, dtype, limit, engine=client.address)

        self.servers.each(sample)
        self.servers.each(check, together=False)

    def _sampler(self, client: ServerClient) -> Any:
        """Return a function that samples with one server alone, for its canaries."""

        def generate(prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]) -> list[Generation]:
            try:
                with ThreadPoolExecutor(max(1, min(len(prompts), self.settings.server.concurrency))) as pool:
                    return list(pool.map(partial(self._ask, client), prompts, repeat(sampling), seeds))
            except ServerRefusedError as cause:
                raise EngineError(str(cause), where="rollout.server", fix=self.servers.fix) from cause

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
