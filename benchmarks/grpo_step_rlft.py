"""rlft's side of `grpo_step`: rounds by `rlft.iteration.run_round`, as they are."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch

from benchmarks import machine
from benchmarks.grpo_workload import LEARNING_RATE, LORA_ALPHA, LORA_RANK, SEED, Workload, make_prompts, score
from rlft.config import Config
from rlft.engines.base import Engine
from rlft.environments.contract.base import BaseEnv
from rlft.iteration import RoundResult, run_round
from rlft.models import Policy
from rlft.models.origin import create_policy
from rlft.types import Task, TaskSet, Trajectory

PRODUCTS, COPIES = 5, 5  # after each step
CACHE_GIB = 0.5  # vLLM's keys and values on a CPU


class Checksum(BaseEnv):
    """Pays by the characters of the answer."""

    async def compute_reward(self, completion: Trajectory, ground_truth: Any) -> dict[str, float | None]:
        """The reward of both sides."""
        return {"checksum": score(completion.text)}


def run(
    workload: Workload,
    folder: Path,
    settings: dict[str, Any],
    measure_machine: bool,
    engine_name: str,
    vllm: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Steps on the model in `folder`; `settings` replace some of the section `training`, `vllm` of `rollout.vllm`.

    An engine takes its memory when it gets its first policy: in the first step, and so above what was loaded. The
    machine's rates are measured after every step, so that they see what the steps saw.
    """
    config = _config(workload, folder, settings, engine_name, vllm or {})
    tasks = make_tasks(workload)
    policy = create_policy(config.policy, seed=config.seed)
    settings = config.rollout.engine_settings()
    engine = settings.kind.on(workload.device).create(settings, config.rollout.batch_size)
    loading = _time_loading(engine)
    watch = machine.StepWatch(workload.device)
    rates: dict[str, list[float]] = {"product_rates": [], "copy_rates": []}
    for number in range(workload.steps + 1):
        watch.begin()
        result = run_round(tasks, Checksum(), policy, engine, config, round=number)
        watch.end(sampling=loading.pop() + result.rollouts.seconds, scoring=result.rewards.seconds)
        _check(result, workload)
        if measure_machine:
            rates["product_rates"] += machine.product_rates(workload.device, workload.dtype, PRODUCTS)
            if workload.device != "cpu":
                rates["copy_rates"] += machine.copy_rates(workload.device, COPIES)
    report = watch.report() | rates
    if workload.device != "cpu":
        free, total = torch.cuda.mem_get_info()
        report["device_used_mib"] = (total - free) / machine.MIB
    engine.close()
    return report


def _time_loading(engine: Engine) -> list[float]:
    """Seconds of every `load_policy` from now on: what an engine does with new weights belongs to sampling."""
    seconds: list[float] = []
    load = engine.load_policy

    def timed(policy: Policy) -> None:
        started = time.perf_counter()
        load(policy)
        seconds.append(time.perf_counter() - started)

    engine.load_policy = timed
    return seconds


def _config(
    workload: Workload, folder: Path, settings: dict[str, Any], engine_name: str, vllm: dict[str, Any]
) -> Config:
    lora = {"rank": LORA_RANK, "alpha": LORA_ALPHA} if workload.lora else None
    return Config.model_validate(
        {
            "name": "grpo-step",
            "seed": SEED,
            "tasks": {"source": "jsonl", "path": "made-in-the-benchmark"},
            "environment": {"name": f"{__name__}:Checksum"},
            "policy": {"model": str(folder), "lora": lora, "dtype": workload.dtype, "device": workload.device},
            "rollout": {
                "engine": engine_name,
                "max_completion_length": workload.completion_tokens,
                "temperature": 1.0,
                "vllm": {"cache_gib": CACHE_GIB, **vllm},
            },
            "training": {
                "tasks_per_round": workload.groups,
                "num_generations": workload.group_size,
                "learning_rate": LEARNING_RATE,
                "gradient_checkpointing": workload.gradient_checkpointing,
                **settings,
            },
        }
    )


def make_tasks(workload: Workload) -> TaskSet:
    """One task for each prompt, so that no step sees one again."""
    tasks = (
        Task(
            id=f"t{number}",
            environment="checksum",
            prompt=({"role": "user", "content": prompt},),
            answer=None,
            info={},
            split="train",
            group=f"t{number}",
        )
        for number, prompt in enumerate(make_prompts(workload))
    )
    return TaskSet(tuple(tasks), fingerprint="")


def _check(result: RoundResult, workload: Workload) -> None:
    """That the work was done: all tokens sampled, all rollouts trained on, one optimizer step."""
    report, wanted = result.report, workload.rollouts
    assert report.stopped is None, report.stopped
    assert (report.updates, report.counts()["trained"]) == (1, wanted), report.counts()
    assert {rollout.prompt_length for rollout in result.rollouts} == {workload.prompt_tokens}
    assert {rollout.completion_length for rollout in result.rollouts} == {workload.completion_tokens}
