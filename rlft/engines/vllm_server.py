"""Samples with running `vllm serve` processes: token ids and seeds go over HTTP, weights through files.

A group is sampled by the next server that has room, which then has its prompt in its cache. Which server that is
changes no result, as each rollout has its own seed. A server that stops answering is left out until the
next policy comes, and its rollouts go to another one; what no server answers is an error of that rollout.

An adapter is loaded under a name that holds the policy's hash and is used only once, so that no prefix cache of another
adapter can answer. Full weights are read by the servers from a folder; then their prefix caches are emptied.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from rlft.config import EngineSettings
from rlft.engines.base import Generation, Sampling, check_request
from rlft.engines.proof import PUSH_SECONDS, SERVERS, Canaries, Proof
from rlft.engines.server_clients import START_AGAIN, ServerClient, ServerSet, alike, spread
from rlft.engines.server_requests import ServerGoneError, ServerRefusedError
from rlft.engines.vllm_engine import check_temperature, sampling_parameters, stop_ids_of
from rlft.errors import EngineError
from rlft.files import folder_prefix, remove_left_behind, writing
from rlft.models import Policy
from rlft.models.export import checkpoint_weights
from rlft.progress import Meter, Progress, silent

logger = logging.getLogger(__name__)


class VllmServerEngine:
    """Samples with the servers that the settings name, which all get the same weights, by `ServerWeights`."""

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        clients = [ServerClient(address, settings.server) for address in settings.server.read_addresses()]
        self.servers = ServerSet(clients)
        self.proof = Proof(settings.max_logprob_difference)  # of the last push, by address
        self.identity = ""
        self._weights = ServerWeights()
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

        Raises EngineError if a server has other weights or refuses them, and if none answers.
        """
        servers = self.servers
        is_adapter = policy.metadata.kind == "adapter"  # whose hash requests name: another server would refuse them
        if is_adapter and policy.metadata.weights_hash and self.identity == policy.identity and servers.live:
            return
        had_weights, self.identity = servers.live if self.identity else [], ""
        servers.live = list(servers.clients)
        canaries = self._prepare(policy, had_weights)
        started = time.perf_counter()
        self._weights.push(policy, servers)
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

        found, answered = [Generation.failed("engine", "no server is left")] * len(prompts), list[int]()
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
            answered.append(place)
            meter.add(tokens=len(found[place].token_ids))
            return True

        spread(alike(prompts, width), lambda: self.servers.live, ask, width=width)
        if lost := len(prompts) - len(answered):
            meter.add(lost)
        return found

    def close(self) -> None:
        """Unload what this engine loaded and close the connections; the servers keep running."""
        self._weights.close(self.servers.live)
        self.servers.close()
        self.identity = ""
        self.proof = Proof(self.settings.max_logprob_difference)

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
                raise EngineError(str(cause), where="rollout.server", fix=START_AGAIN) from cause

        return generate

    def _ask(self, client: ServerClient, prompt: Sequence[int], sampling: Sampling, seed: int) -> Generation:
        room = self._context - len(prompt)
        if room < 1:
            return Generation.without_room(len(prompt), self._context)
        parameters = sampling_parameters(sampling, seed, room, self._stop_ids)
        return client.generate(prompt, parameters, model=self._weights.model)


class ServerWeights:
    """Gives weights to servers, and removes the adapters and files of earlier ones.

    `model` is the name that requests must give: an adapter's, or `None` for the server's own model. `folder` holds the
    files that the servers read; it is kept until the next weights are proven, as a server may read it again.
    """

    def __init__(self) -> None:
        self.model: str | None = None
        self.folder: tempfile.TemporaryDirectory[str] | None = None
        self._before: tempfile.TemporaryDirectory[str] | None = None
        # What the servers were given and may still have; one that was left out has its own until it is back.
        self._adapters: dict[ServerClient, list[str]] = {}

    def push(self, policy: Policy, servers: ServerSet) -> None:
        """Give the policy's weights to all live servers side by side; files are written once.

        Raises as `ServerSet.each` does where a server refuses.
        """
        self._discard_before()
        remove_left_behind("weights")
        self._before, self.folder = self.folder, None
        with writing("weights for the engine", tempfile.gettempdir()):
            self.folder = tempfile.TemporaryDirectory(prefix=folder_prefix("weights"))
            folder = Path(self.folder.name)
            if policy.metadata.kind == "adapter":
                policy.model.save_pretrained(folder, safe_serialization=True)
            else:
                write_checkpoint(policy, folder)
        self.model = None
        if policy.metadata.kind == "adapter":
            self.model = name = f"rlft-{policy.identity.replace(' ', '-')}-{folder.name.rpartition('-')[2]}"
            servers.each(lambda client: self._load_adapter(client, name, folder))
            return
        servers.each(lambda client: client.reload_weights(folder))
        servers.each(lambda client: client.reset_prefix_cache())

    def forget_earlier(self, clients: Sequence[ServerClient]) -> None:
        """Unload the adapters and remove the files of earlier weights; call it once the newest are proven."""
        self._unload(clients, but=self.model)
        self._discard_before()

    def close(self, clients: Sequence[ServerClient]) -> None:
        """Unload all adapters and remove all files."""
        self._unload(clients, but=None)
        self._discard_before()
        self._before, self.folder, self.model = self.folder, None, None
        self._discard_before()

    def _load_adapter(self, client: ServerClient, name: str, folder: Path) -> None:
        self._adapters.setdefault(client, []).append(name)
        client.load_adapter(name, folder)

    def _unload(self, clients: Sequence[ServerClient], *, but: str | None) -> None:
        for client in clients:
            known = self._adapters.pop(client, [])
            for name in known:
                if name != but:
                    client.unload_adapter(name)
            self._adapters[client] = [name for name in known if name == but]

    def _discard_before(self) -> None:
        if self._before is not None:
            self._before.cleanup()
            self._before = None


def write_checkpoint(policy: Policy, folder: Path) -> None:
    """Write a checkpoint with tied weights under each of their names.

    `save_pretrained` writes them once, and then vLLM on a CPU would keep its old output layer.
    """
    weights = {name: weight.contiguous().clone() for name, weight in checkpoint_weights(policy.model)}
    policy.model.config.save_pretrained(folder)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
