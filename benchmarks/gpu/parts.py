"""Which parts there are, in the order of their worth, and what each needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

GPU, VLLM, TRL = "a GPU", "vLLM", "TRL"
HERE = "benchmarks"
_FIRST_CELLS = 4  # are measured before all else that needs no vLLM


@dataclass(frozen=True, slots=True)
class Part:
    """A command that ends with a line of JSON.

    It is ended after `seconds`, and not begun with fewer left. `kind` says which table its result belongs to.
    """

    name: str
    kind: str
    command: tuple[str, ...]
    seconds: float
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a run of all parts measures: on a GPU, or in a rehearsal."""

    device: str
    dtype: str
    model: str
    threads: int
    completion_tokens: int
    steps: int
    cells: tuple[tuple[int, int, int, bool], ...]  # prompt tokens, prompts, completions of each, an adapter
    seconds: float  # of a cell
    tokens: int  # of a pass of `kernels`
    logprob_tokens: int
    rounds: int  # of `canaries`


# Of 8,192 tokens there are 32 rows: the keys and values of 64 alone would take 60 GB of TRL's sampling.
ON_GPU = Sizes(
    device="cuda",
    dtype="bfloat16",
    model="qwen3-0.6b",
    threads=8,
    completion_tokens=128,
    steps=2,
    cells=tuple(
        (prompt, 32 // group if prompt > 4000 else 8, group, lora)
        for prompt, group, lora in (
            (2048, 8, False),
            (2048, 8, True),
            (512, 8, False),
            (8192, 8, False),
            (512, 8, True),
            (8192, 8, True),
            (2048, 16, False),
            (2048, 16, True),
            (512, 16, False),
            (512, 16, True),
            (8192, 16, False),
            (8192, 16, True),
        )
    ),
    seconds=110,
    tokens=16_384,
    logprob_tokens=32_768,
    rounds=4,
)
REHEARSAL = Sizes(
    device="cpu",
    dtype="float32",
    model="toy",
    threads=1,
    completion_tokens=3,
    steps=1,
    cells=((8, 2, 2, True),),
    seconds=110,
    tokens=16,
    logprob_tokens=16,
    rounds=1,
)


def make_parts(sizes: Sizes, folder: Path | None) -> Iterator[Part]:
    """All of them; `folder` has the model, or each writes its own."""
    first, others = sizes.cells[0], sizes.cells[_FIRST_CELLS:]
    yield _step(sizes, first, folder)
    yield _rollout(sizes, "sampling beside bare vLLM, push and proof", ("bare", "vllm"), 240)
    yield _step(sizes, first, folder, sampler=VLLM)
    for cell in sizes.cells[1:_FIRST_CELLS]:
        yield _step(sizes, cell, folder)
    yield _module("kernels", "kernels", _workload(sizes), 90, "--tokens", str(sizes.tokens))
    canaries = _workload(sizes, completion_tokens=8, steps=sizes.rounds)
    where = _model_in(folder)
    yield _module("canaries, transformers", "canaries", canaries, 90, *where, "--engine", "transformers")
    yield _module("canaries, vLLM", "canaries", canaries, 150, *where, "--engine", "vllm", needs=(GPU, VLLM))
    yield _module("sleep and wake", "sleeping", _workload(sizes), 240, needs=(GPU, VLLM))
    yield _logprobs(sizes)
    short = _workload(sizes, completion_tokens=min(24, sizes.completion_tokens), steps=1)
    yield _module("profile of a step", "profiling", short, 60)
    for cell in others:
        yield _step(sizes, cell, folder)
    for cell in sizes.cells[1:]:
        yield _step(sizes, cell, folder, sampler=VLLM)


def missing() -> set[str]:
    """What this machine lacks of all that a part may need."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    absent = {name for name, package in ((VLLM, "vllm"), (TRL, "trl")) if find_spec(package) is None}
    return absent | ({GPU} if count < 1 else set())


def _workload(sizes: Sizes, **changed: Any) -> str:
    prompt, groups, group_size, _ = sizes.cells[0]
    found = {"prompt_tokens": prompt, "groups": groups, "group_size": group_size} | {
        name: getattr(sizes, name) for name in ("completion_tokens", "model", "device", "dtype", "threads", "steps")
    }
    return json.dumps(found | changed)


def _module(name: str, module: str, workload: str, seconds: float, *more: str, needs: tuple[str, ...] = ()) -> Part:
    """One of this package, which takes a workload."""
    return Part(name, module, (f"{HERE}.gpu.{module}", workload, *more), seconds, needs)


def _step(sizes: Sizes, cell: tuple[int, int, int, bool], folder: Path | None, *, sampler: str = "") -> Part:
    """rlft's step beside TRL's; with vLLM on both sides, or with transformers."""
    prompt, groups, group_size, lora = cell
    name = f"step, {groups} x {group_size} of {prompt:,}, {'LoRA' if lora else 'full'}"
    arguments = ["--prompt-tokens", str(prompt), "--groups", str(groups), "--group-size", str(group_size)]
    arguments += ["--repeats", "1", "--steps", str(sizes.steps), "--completion-tokens", str(sizes.completion_tokens)]
    arguments += [*_model_in(folder), "--json", *_machine(sizes), "--model", sizes.model]
    arguments += ["--lora"] if lora else []
    if sampler == VLLM:
        trl = {"use_vllm": True, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.3}
        arguments += ["--engine", "vllm", "--vllm", '{"gpu_memory_utilization": 0.3}', "--trl", json.dumps(trl)]
        name += ", vLLM on both sides"
    needs = (TRL, GPU, VLLM) if sampler else (TRL,)
    return Part(name, "step", (f"{HERE}.grpo_step", *arguments), sizes.seconds * (2 if sampler else 1), needs)


def _rollout(
    sizes: Sizes, name: str, engines: tuple[str, ...], seconds: float, *more: str, needs: tuple[str, ...] = (GPU, VLLM)
) -> Part:
    arguments = ("--engines", *engines, "--sizes", sizes.model, "--prompts", "512", "2048", "--rounds", "2")
    arguments += ("--repeats", "1", "--json", *_machine(sizes), *more)
    return Part(name, "rollout", (f"{HERE}.rollout", *arguments), seconds, needs)


def _logprobs(sizes: Sizes) -> Part:
    shape = {"tokens": sizes.logprob_tokens, "vocabulary": 151_936 if sizes.device != "cpu" else 98, "width": 1024}
    order = {"implementation": "rlft", "device": sizes.device, "dtype": sizes.dtype, **shape}
    command = (f"{HERE}.logprob_memory", "--one", json.dumps(order))
    return Part(f"log-probabilities of {sizes.logprob_tokens:,} tokens", "logprobs", command, 60)


def _model_in(folder: Path | None) -> tuple[str, ...]:
    return ("--folder", str(folder)) if folder else ()


def _machine(sizes: Sizes) -> tuple[str, ...]:
    return ("--device", sizes.device, "--dtype", sizes.dtype, "--threads", str(sizes.threads))
