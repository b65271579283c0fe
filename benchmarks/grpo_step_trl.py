"""TRL's side of `grpo_step`: its GRPOTrainer on the same model, prompts and reward."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from transformers.utils import is_flash_attn_2_available
from trl import GRPOConfig, GRPOTrainer

from benchmarks.grpo_workload import LEARNING_RATE, LORA_ALPHA, LORA_RANK, SEED, Workload, make_prompts, score
from benchmarks.machine import StepWatch


def cpu_tokens(vocabulary: int) -> int:
    """How many tokens TRL reads at the same time: as many as was fastest on a CPU with a vocabulary of this size.

    With a small one of 64, 32, 16 and 8 rows; more make buffers that malloc gives back to the kernel each time, 4 to
    8 % slower. With 49,152 tokens (SmolLM2) 16 rows of 164 tokens took 15.0 s and 4 rows 17.1 s, of 464 tokens 58.4 and
    46.6 s, and 32 rows of 150 need 19 GB.
    """
    return 8192 if vocabulary < 16_384 else 2624


# On an H100 with 80 GB, of 2 to 16 rows of 2,176 tokens the fastest (`gpu.tuning`); 32 rows do not fit.
GPU_TOKENS = 16 * 2176


def run(workload: Workload, folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Steps on the model in `folder`; `settings` replace fields of GRPOConfig."""
    clock = _Clock()

    def reward(completions: list[str], **_: Any) -> list[float]:
        started = time.perf_counter()
        scores = [score(text) for text in completions]
        clock.scoring = time.perf_counter() - started
        return scores

    with tempfile.TemporaryDirectory() as output:
        trainer = _TimedTrainer(
            model=_load(workload, folder),
            reward_funcs=reward,
            args=_config(workload, output, settings),
            train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in make_prompts(workload)]),
            processing_class=AutoTokenizer.from_pretrained(folder),
            peft_config=_adapter() if workload.lora else None,
        )
        trainer.workload, trainer.clock = workload, clock
        watch = StepWatch(workload.device)
        trainer.add_callback(_Watcher(watch, clock))
        trainer.train()
    return watch.report()


def _load(workload: Workload, folder: Path) -> Any:
    """All weights in the type of the workload, the optimizer's numbers with them: the fastest that TRL can do."""
    flash = workload.device == "cuda" and workload.dtype == "bfloat16" and is_flash_attn_2_available()
    return AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=getattr(torch, workload.dtype),
        attn_implementation="flash_attention_2" if flash else "sdpa",
    )


def _adapter() -> LoraConfig:
    return LoraConfig(r=LORA_RANK, lora_alpha=LORA_ALPHA, target_modules="all-linear", task_type="CAUSAL_LM")


def _rows(workload: Workload) -> int:
    """How many completions are read at the same time: as many as was fastest."""
    length = workload.prompt_tokens + workload.completion_tokens
    at_once = cpu_tokens(workload.shape["vocab_size"]) if workload.device == "cpu" else GPU_TOKENS
    most = max(1, at_once // length)
    return max(rows for rows in range(1, workload.rollouts + 1) if rows <= most and workload.rollouts % rows == 0)


def _config(workload: Workload, output: str, settings: dict[str, Any]) -> GRPOConfig:
    """One generation and one optimizer step for all rollouts, and nothing that is not asked for."""
    rows = settings.get("per_device_train_batch_size", _rows(workload))
    fields: dict[str, Any] = {
        "output_dir": output,
        "per_device_train_batch_size": rows,
        "gradient_accumulation_steps": workload.rollouts // rows,
        "num_generations": workload.group_size,
        "max_completion_length": workload.completion_tokens,
        "max_steps": workload.steps + 1,
        "learning_rate": LEARNING_RATE,
        "lr_scheduler_type": "constant",
        "weight_decay": 0.0,
        "beta": 0.0,
        "temperature": 1.0,
        "shuffle_dataset": False,
        "gradient_checkpointing": workload.gradient_checkpointing,
        "bf16": workload.dtype == "bfloat16",
        "use_cpu": workload.device == "cpu",
        "optim": "adamw_torch_fused",
        "dataloader_pin_memory": workload.device != "cpu",
        "report_to": [],
        "logging_strategy": "no",
        "logging_nan_inf_filter": False,
        "save_strategy": "no",
        "disable_tqdm": True,
        "seed": SEED,
    }
    return GRPOConfig(**(fields | settings))


class _Clock:
    """Seconds of the parts of the current step."""

    generating = scoring = 0.0


class _Watcher(TrainerCallback):
    """Fetching the prompts of a step is not counted, all else is."""

    def __init__(self, watch: StepWatch, clock: _Clock) -> None:
        self.watch, self.clock = watch, clock

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.watch.begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        clock = self.clock
        self.watch.end(sampling=clock.generating - clock.scoring, scoring=clock.scoring)


class _TimedTrainer(GRPOTrainer):
    """Says how long a step sampled and scored, and checks that the work was done."""

    workload: Workload
    clock: _Clock

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        started = time.perf_counter()
        batch = super()._generate_and_score_completions(inputs)
        if self.workload.device != "cpu":
            torch.cuda.synchronize()
        self.clock.generating = time.perf_counter() - started
        wanted = self.workload
        assert batch["prompt_mask"].sum() == wanted.rollouts * wanted.prompt_tokens
        assert batch["completion_mask"].sum() == wanted.rollouts * wanted.completion_tokens
        assert (batch["advantages"].view(wanted.groups, -1) != 0).any(1).all(), "a group has no variance"
        return batch
