"""The sides of `rollout`: an engine of rlft in whole rounds, and `LLM.generate` in a loop."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from benchmarks import machine
from benchmarks.grpo_step_rlft import Checksum, make_tasks
from benchmarks.grpo_workload import SEED, Workload
from benchmarks.rollout_server import cpu_seconds, free_port, serve
from rlft.config import Config
from rlft.engines.base import Engine
from rlft.engines.proof import PUSH_SECONDS
from rlft.harness.rollout import PolicyPlayer, SamplingSettings, collect_rollouts
from rlft.models import Policy
from rlft.models.origin import create_policy
from rlft.models.tokens import render_prompt
from rlft.types import Rollouts, Task

CHANGE = 1e-3  # standard deviation of what is added to every weight before a round
Rounds = list[dict[str, float]]


def run_engine(side: str, workloads: list[Workload], folder: Path, cache_gib: float) -> list[Rounds]:
    """An engine's rounds for each workload, on the model in `folder`."""
    port, device = free_port(), workloads[-1].device
    config = make_config(side, folder, workloads[-1], cache_gib, [f"http://127.0.0.1:{port}"])
    with serve(config, port) if side == "vllm_server" else nullcontext() as server:
        policy = create_policy(config.policy, seed=config.seed)
        settings = config.rollout.engine_settings()
        engine = settings.kind.on(device).create(settings, config.rollout.batch_size)
        numbers = itertools.count(1)
        try:
            return [
                [_round(next(numbers), tasks, policy, engine, workload, server) for tasks in _of_rounds(workload)][1:]
                for workload in workloads
            ]
        finally:
            engine.close()


def make_config(side: str, folder: Path, workload: Workload, cache_gib: float, addresses: list[str]) -> Config:
    """Defaults, but for the engine and the sizes."""
    return Config.model_validate(
        {
            "name": "rollout",
            "seed": SEED,
            "tasks": {"source": "jsonl", "path": "made-in-the-benchmark"},
            "environment": {"name": "benchmarks.grpo_step_rlft:Checksum"},
            "policy": {"model": str(folder), "dtype": workload.dtype, "device": workload.device},
            "rollout": {
                "engine": side,
                "max_completion_length": workload.completion_tokens,
                "vllm": {"cache_gib": cache_gib},
                "server": {"addresses": addresses},
            },
        }
    )


def _of_rounds(workload: Workload) -> list[tuple[Task, ...]]:
    """The tasks of each round, the warm-up first; none comes twice."""
    tasks, size = make_tasks(workload).tasks, workload.groups
    return [tasks[start : start + size] for start in range(0, len(tasks), size)]


def _round(
    number: int, tasks: Sequence[Task], policy: Policy, engine: Engine, workload: Workload, server: int | None
) -> dict[str, float]:
    """One round's seconds. The weights change before it, and what the engine holds is old."""
    change_weights(policy, number)
    watch = Watch(server)
    started = time.perf_counter()
    engine.load_policy(policy)
    loading = time.perf_counter() - started
    rollouts = collect_rollouts(
        tasks,
        Checksum(),
        PolicyPlayer(policy, engine),
        SamplingSettings(temperature=1.0, max_completion_length=workload.completion_tokens, seed=SEED),
        num_generations=workload.group_size,
        round=number,
        label="train",
    )
    found = watch.end()
    _check(rollouts, workload)
    assert torch.get_num_threads() == workload.threads, torch.get_num_threads()
    push = engine.metrics.get(PUSH_SECONDS, 0.0)
    parts = {"sampling_seconds": rollouts.seconds, "push_seconds": push, "proof_seconds": loading - push}
    return found | parts


def change_weights(policy: Policy, number: int) -> None:
    """A step's worth of new weights."""
    generator = torch.Generator().manual_seed(number)
    with torch.no_grad():
        for parameter in policy.model.parameters():
            change = CHANGE * torch.randn(parameter.shape, generator=generator)
            parameter.add_(change.to(parameter.device, parameter.dtype))
    policy.note_change(update=number)


def _check(rollouts: Rollouts, workload: Workload) -> None:
    """That all tokens were sampled."""
    assert not (errors := [row.error for row in rollouts if row.error]), errors[0]
    assert len(rollouts) == workload.rollouts
    assert {row.prompt_length for row in rollouts} == {workload.prompt_tokens}
    assert {row.completion_length for row in rollouts} == {workload.completion_tokens}


def run_bare(workloads: list[Workload], folder: Path, cache_gib: float) -> list[Rounds]:
    """`LLM.generate` for each workload, started and asked as `rlft.engines.vllm_engine` does."""
    import vllm

    from rlft.engines.vllm_engine import vllm_environment

    config = make_config("vllm", folder, workloads[-1], cache_gib, [])  # for its defaults
    context = create_policy(config.policy, seed=SEED).context_length
    with vllm_environment():
        llm = vllm.LLM(
            str(folder),
            runner="generate",
            dtype=config.policy.dtype,
            max_model_len=context,
            max_num_seqs=config.rollout.batch_size,
            enable_prefix_caching=True,
            logprobs_mode="processed_logprobs",
            generation_config="vllm",
            **_device_options(config, context),
        )
    assert torch.get_num_threads() == workloads[0].threads, torch.get_num_threads()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    seeds = itertools.count(1)
    try:
        return [
            [_bare_round(llm, tasks, tokenizer, workload, seeds) for tasks in _of_rounds(workload)][1:]
            for workload in workloads
        ]
    finally:
        llm.llm_engine.engine_core.shutdown()
        vllm.distributed.cleanup_dist_env_and_memory()


def _device_options(config: Config, context: int | None) -> dict[str, Any]:
    """What `rlft.engines.vllm_engine` says of a GPU or a CPU."""
    own = config.rollout.vllm
    if config.policy.device != "cpu":
        return {"enforce_eager": False, "gpu_memory_utilization": own.gpu_memory_utilization}
    return {
        "enforce_eager": True,
        "kv_cache_memory_bytes": int(own.cache_gib * 2**30),
        "enable_chunked_prefill": False,  # with seeds vLLM 0.32 fails on a CPU otherwise
        "max_num_batched_tokens": max(4096, context or 0, config.rollout.batch_size),
    }


def _bare_round(
    llm: Any, tasks: Sequence[Task], tokenizer: Any, workload: Workload, seeds: Iterator[int]
) -> dict[str, float]:
    """One round's seconds: making the requests, and their answers."""
    import vllm

    prompts = [render_prompt(tokenizer, task.prompt) for task in tasks for _ in range(workload.group_size)]
    llm.reset_prefix_cache()
    watch = Watch(None)
    outputs = llm.generate(
        [{"prompt_token_ids": prompt} for prompt in prompts],
        [
            vllm.SamplingParams(
                temperature=1.0,
                max_tokens=workload.completion_tokens,
                seed=next(seeds),
                logprobs=0,
                stop_token_ids=[],
                ignore_eos=True,
                detokenize=False,
            )
            for _ in prompts
        ],
        use_tqdm=False,
    )
    found = watch.end()
    assert {len(output.prompt_token_ids) for output in outputs} == {workload.prompt_tokens}
    lengths = [(len(output.outputs[0].token_ids), len(output.outputs[0].logprobs)) for output in outputs]
    assert lengths == [(workload.completion_tokens,) * 2] * workload.rollouts
    return found | {"sampling_seconds": found["seconds"], "push_seconds": 0.0, "proof_seconds": 0.0}


class Watch:
    """Seconds since it was made, and how many cores other processes kept busy; a server's own are not others."""

    def __init__(self, server: int | None) -> None:
        self.server = server
        self.began = self._now()

    def end(self) -> dict[str, float]:
        """What it saw."""
        seconds, own, busy = (b - a for a, b in zip(self.began, self._now(), strict=True))
        return {"seconds": seconds, "other_cores": max(0.0, busy - own) / seconds}

    def _now(self) -> tuple[float, float, float]:
        served = cpu_seconds(self.server) if self.server is not None else 0.0
        return time.perf_counter(), time.process_time() + served, machine.busy_seconds()
