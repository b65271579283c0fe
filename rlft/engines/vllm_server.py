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
from rlft.engines.proof import PUSH_SECONDS, SERVERS, Canaries, Proof
from rlft.engines.server_clients import Failure, LoadBalancer, ServerClient, ServerSet, alike
from rlft.engines.server_requests import ServerGoneError, ServerRefusedError
from rlft.engines.server_weights import ServerWeights
from rlft.engines.vllm_process import check_temperature, sampling_parameters, stop_ids_of
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
        self.proof = Proof(settings.max_logprob_difference)  # of the last push, by address
        self.identity = ""
        self._weights = ServerWeights(settings.server, None if starter is None else starter.folder)
        self._dead: list[ServerClient] = []  # of those that the starter has started
        self._stop_ids: list[int] = []
        self._context = 0
        self.push_seconds = 0.0

    @property
    def policy_hash(self) -> str:
        """The identity of the loaded policy, or an empty string."""
        return self.identity

    @property
    def metrics(self) -> dict[str, float]:
        """The last push's seconds, what its proof found on the worst server, and how many servers are left."""
        if not self.identity:
            return {}
        worst = self.proof.metrics([client.address for client in self.servers.live])
        return {PUSH_SECONDS: self.push_seconds, **worst, SERVERS: float(len(self.servers.live))}

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
        self._prove(canaries, policy)
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
        self.proof = Proof(self.settings.max_logprob_difference)

    def _dropped(self, client: ServerClient, cause: Failure) -> None:
        self._weights.left_out(client)
        if isinstance(cause, ServerGoneError) and self._starter is not None and not cause.status:
            self._dead.append(client)  # nobody starts it again: it would cost each push all its attempts

    def _prepare(self, policy: Policy, had_weights: Sequence[ServerClient]) -> Canaries:
        """Note the policy's stop tokens and the servers' smallest context, and return the canaries.

        Servers that have weights already get the longest canary in their caches, to show if these are not emptied.
        """
        self._stop_ids = stop_ids_of(policy)
        contexts: list[int] = []
        self.servers.each(lambda client: contexts.append(client.context_length()))
        self._context = min(contexts)
        canaries = self.proof.begin(policy, self._context)
        for client in had_weights:
            with suppress(EngineError, ServerGoneError):  # one that has lost its weights has no stale cache either
                canaries.warm_cache(self._sampler(client))
        return canaries

    def _still_there(self, policy: Policy) -> bool:
        """Return whether the live servers still have this policy.

        A server that was started again has other full weights and answers all the same, so it is asked the canaries.
        """
        if self._weights.model is not None:
            return bool(self.servers.live)  # requests name the adapter, by its hash: such a server would refuse them
        before = self.servers.live
        try:
            self._prove(self.proof.begin(policy, self._context), policy)
        except EngineError as cause:
            logger.warning("the weights are given to the servers again: %s", cause)
        return self.servers.live == before

    def _prove(self, canaries: Canaries, policy: Policy) -> None:
        """Ask all servers their canaries side by side; then the policy's model scores them, in this thread alone."""
        found: dict[ServerClient, list[Generation]] = {}

        def sample(client: ServerClient) -> None:
            found[client] = canaries.sample(self._sampler(client))

        def check(client: ServerClient) -> None:
            self.proof.check(client.address, found[client], policy)

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
        parameters = sampling_parameters(sampling, seed, room, self._stop_ids)
        return client.generate(prompt, parameters, model=self._weights.model)
