"""What it saves to encode a common beginning once: in a GRPO step, an evaluation, and supervised fine-tuning.

    python -m benchmarks.beginnings --json
    python -m benchmarks.beginnings --parts evaluation sft --before FOLDER --json

Prompts are a beginning that all have in common, of 0, 100 or 350 tokens, and 20 of their own. The model has the width
of SmolLM2-135M, random weights and an adapter of rank 16, in float32 on the CPU with two threads.

- `step` (`benchmarks.grpo_step`): 8 prompts x 8 completions of 35 or 64 tokens, beside TRL's GRPOTrainer.
- `evaluation`: 64 prompts, one greedy completion of 35 tokens each, beside `generate` of transformers in the batch that
  is fastest for it.
- `sft`: batches of 8 demonstrations with completions of 35 tokens, beside TRL's SFTTrainer without packing.

`factor` says how many times faster rlft is than the peer, and `floor` how many times fewer tokens it must encode.
`--before FOLDER` measures another checkout of rlft, too. Each side is a process of its own; seconds are the median of
the steps after a first one. The last line is one JSON object; progress goes to stderr.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import grpo_step, machine
from benchmarks.grpo_workload import LEARNING_RATE, LORA_ALPHA, LORA_RANK, SEED, Workload, make_prompts, write_model

ROOT = Path(__file__).resolve().parents[1]
COMMON, OWN, COMPLETIONS = (0, 100, 350), 20, (35, 64)
TASKS, DEMONSTRATIONS = 64, 8
GENERATE_BATCHES = (16, 64)
ADAPTER = {"r": LORA_RANK, "lora_alpha": LORA_ALPHA, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}
PACKAGES = ("torch", "transformers", "peft", "trl")


def _workload(common: int, completion: int, options: Namespace, **changes: Any) -> Workload:
    return Workload(
        prompt_tokens=common + OWN,
        common_tokens=common,
        completion_tokens=completion,
        model=options.model,
        lora=True,
        steps=options.steps,
        **changes,
    )


def _ids(workload: Workload, folder: Path) -> list[list[int]]:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)(make_prompts(workload))["input_ids"]


def _medians(step: Callable[[int], Any], steps: int) -> float:
    """Return the median of the seconds of `step(number)`, without the first call."""
    seconds = []
    for number in range(steps + 1):
        started = time.perf_counter()
        step(number)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[1:])


def evaluate(workload: Workload, folder: Path) -> dict[str, float]:
    """Sample from all prompts greedily with rlft's engine."""
    from rlft.config import PolicyConfig
    from rlft.engines.base import Sampling
    from rlft.engines.transformers_engine import TransformersEngine
    from rlft.models.origin import create_policy

    policy = create_policy(PolicyConfig.model_validate({"model": str(folder), "lora": {"rank": LORA_RANK}}), seed=SEED)
    engine, prompts = TransformersEngine(), _ids(workload, folder)
    engine.load_policy(policy)
    sampling = Sampling(0.0, workload.completion_tokens)

    def step(number: int) -> None:
        some = prompts[number * TASKS : (number + 1) * TASKS]
        found = engine.generate(some, sampling, list(range(TASKS)))
        assert {len(each.token_ids) for each in found} == {workload.completion_tokens}

    return {"seconds": _medians(step, workload.steps)}


def generate(workload: Workload, folder: Path) -> dict[str, float]:
    """Sample from all prompts greedily with `generate`."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    model = get_peft_model(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), LoraConfig(**ADAPTER))
    prompts = torch.tensor(_ids(workload, folder))
    found = {}

    def step(number: int) -> None:
        some = prompts[number * TASKS : (number + 1) * TASKS].split(batch)
        with torch.inference_mode():
            for rows in some:
                length = {"max_new_tokens": workload.completion_tokens, "min_new_tokens": workload.completion_tokens}
                out = model.generate(rows, attention_mask=torch.ones_like(rows), do_sample=False, **length)
                assert out.shape[1] == workload.prompt_tokens + workload.completion_tokens

    for batch in GENERATE_BATCHES:
        found[f"batch_{batch}"] = _medians(step, workload.steps)
    return {"seconds": min(found.values()), **found}


def imitate(workload: Workload, folder: Path) -> dict[str, float]:
    """Take supervised steps as a warm start of rlft does."""
    from rlft.config import PolicyConfig
    from rlft.models.origin import create_policy
    from rlft.training.demonstrations import as_rollout
    from rlft.training.imitation import imitate as add_gradients

    policy = create_policy(PolicyConfig.model_validate({"model": str(folder), "lora": {"rank": LORA_RANK}}), seed=SEED)
    policy.model.eval()
    policy.find_out()
    optimizer = torch.optim.AdamW(policy.trainable().values(), lr=LEARNING_RATE)
    rows = [
        (ids, [False] * workload.prompt_tokens + [True] * workload.completion_tokens)
        for ids in _shown(workload, folder)
    ]
    rollouts = [as_rollout(row, number) for number, row in enumerate(rows)]

    def step(number: int) -> None:
        add_gradients(policy, rollouts[number * DEMONSTRATIONS : (number + 1) * DEMONSTRATIONS])
        torch.nn.utils.clip_grad_norm_(policy.trainable().values(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return {"seconds": _medians(step, workload.steps)}


def fine_tune(workload: Workload, folder: Path) -> dict[str, float]:
    """Take supervised steps with TRL's SFTTrainer, without packing and with the loss on completions alone."""
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import SFTConfig, SFTTrainer

    seconds: list[float] = []

    class Watch(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            seconds.append(-time.perf_counter())

        def on_step_end(self, *_: Any, **__: Any) -> None:
            seconds[-1] += time.perf_counter()

    prompt = workload.prompt_tokens
    rows = [
        {"input_ids": ids, "completion_mask": [0] * prompt + [1] * (len(ids) - prompt)}
        for ids in _shown(workload, folder)
    ]
    with tempfile.TemporaryDirectory() as output:
        trainer = SFTTrainer(
            model=AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
            args=SFTConfig(
                output_dir=output,
                per_device_train_batch_size=DEMONSTRATIONS,
                max_steps=workload.steps + 1,
                learning_rate=LEARNING_RATE,
                lr_scheduler_type="constant",
                gradient_checkpointing=False,
                completion_only_loss=True,
                packing=False,
                max_length=None,
                bf16=False,
                use_cpu=True,
                optim="adamw_torch_fused",
                report_to=[],
                logging_strategy="no",
                save_strategy="no",
                disable_tqdm=True,
                dataloader_pin_memory=False,
                seed=SEED,
            ),
            train_dataset=Dataset.from_list(rows),
            processing_class=AutoTokenizer.from_pretrained(folder),
            peft_config=LoraConfig(**ADAPTER),
            callbacks=[Watch()],
        )
        trainer.train()
    return {"seconds": statistics.median(seconds[1:])}


def _shown(workload: Workload, folder: Path) -> list[list[int]]:
    """Return prompts with completions of random tokens."""
    generator = torch.Generator().manual_seed(SEED)
    return [
        ids + torch.randint(0, 64, (workload.completion_tokens,), generator=generator).tolist()
        for ids in _ids(workload, folder)
    ]


SIDES: dict[str, Callable[[Workload, Path], dict[str, float]]] = {
    "evaluate": evaluate,
    "generate": generate,
    "imitate": imitate,
    "fine_tune": fine_tune,
}


def _run(side: str, workload: Workload, folder: Path, code: Path | None = None) -> dict[str, float]:
    """Measure a side in a fresh process, with the rlft of another checkout if there is one."""
    order = json.dumps({"side": side, "workload": dataclasses.asdict(workload), "folder": str(folder)})
    threads = {"OMP_NUM_THREADS": str(workload.threads), "OMP_WAIT_POLICY": "PASSIVE", "HF_HUB_OFFLINE": "1"}
    path = os.pathsep.join(map(str, filter(None, [code, ROOT])))
    environment = os.environ | threads | {"PYTHONPATH": path, "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, "-P", "-m", "benchmarks.beginnings", "--one", order]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{side} failed with {order}:\n{done.stderr[-4000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    sys.stderr.write(f"{side}{' before' if code else ''}, {workload.common_tokens} common: {found['seconds']:.3f} s\n")
    return found


def _compare(part: str, common: int, options: Namespace, folder: Path) -> dict[str, Any]:
    """Return one row of `evaluation` or `sft`."""
    ours, peer, rows = (
        ("evaluate", "generate", TASKS) if part == "evaluation" else ("imitate", "fine_tune", DEMONSTRATIONS)
    )
    workload = _workload(common, COMPLETIONS[0], options, groups=rows, group_size=1)
    if part == "sft":
        workload = dataclasses.replace(workload, steps=5 * options.steps)
    own, whole = OWN + COMPLETIONS[0], common + OWN + COMPLETIONS[0]
    found: dict[str, Any] = {"common": common, "floor": rows * whole / (common + rows * own)}
    found["rlft"], found["peer"] = _run(ours, workload, folder), _run(peer, workload, folder)
    if options.before:
        found["before"] = _run(ours, workload, folder, options.before)
        found["factor_to_before"] = found["before"]["seconds"] / found["rlft"]["seconds"]
    return found | {"factor": found["peer"]["seconds"] / found["rlft"]["seconds"]}


def _step(common: int, completion: int, options: Namespace, folder: Path) -> dict[str, Any]:
    """Return one row of `step`."""
    workload = _workload(common, completion, options)
    settings = Namespace(trl={}, rlft={}, vllm={}, engine="transformers", allocator="default")
    found = {side: grpo_step.measure(side, workload, folder, settings) for side in ("rlft", "trl")}
    whole, own = workload.rollouts * (workload.prompt_tokens + completion), workload.rollouts * completion
    return {
        "common": common,
        "completion": completion,
        "floor": whole / (common + workload.groups * OWN + own),
        "factor": found["trl"]["seconds"] / found["rlft"]["seconds"],
        "factor_of_training": found["trl"]["training_seconds"] / found["rlft"]["training_seconds"],
        **found,
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--parts", nargs="+", choices=["step", "evaluation", "sft"], default=["step", "evaluation", "sft"]
    )
    parser.add_argument("--model", default="smollm2-10-layers")
    parser.add_argument("--common", nargs="+", type=int, default=COMMON)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--before", type=Path, help="another checkout of rlft")
    parser.add_argument("--json", action="store_true", help="print the JSON line alone on stdout (always the last)")
    parser.add_argument("--one", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        workload = Workload(**options.one["workload"])
        torch.set_num_threads(workload.threads)
        sys.stdout.write(json.dumps(SIDES[options.one["side"]](workload, Path(options.one["folder"]))) + "\n")
        return
    result: dict[str, Any] = machine.describe("cpu", PACKAGES) | {"model": options.model}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_model(_workload(max(options.common), max(COMPLETIONS), options), folder)
        for part in options.parts:
            if part == "step":
                result[part] = [_step(c, n, options, folder) for c in options.common for n in COMPLETIONS]
            else:
                result[part] = [_compare(part, common, options, folder) for common in options.common]
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
