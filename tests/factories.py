"""Small things that tests are made of: tasks, rollouts, rewards, and policies with two layers of width 32."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from rlft.config import FromScratchConfig, LoraSettings, PolicyConfig, TrainingConfig
from rlft.environments.contract.base import BaseEnv
from rlft.models import Policy, save_policy
from rlft.models.origin import create_policy
from rlft.outcome import Failure
from rlft.types import Message, Reward, Rewards, Rollout, Rollouts, Split, Task, TaskSet, Trajectory

torch.set_num_threads(1)  # matrices this small only lose by being shared out: the tests take half the time

Architecture = Literal["qwen3", "llama", "gpt2"]
ARCHITECTURES: tuple[Architecture, ...] = ("qwen3", "llama", "gpt2")
CHARACTERS = "0123456789+= "


def user(content: str) -> Message:
    """A user's message."""
    return {"role": "user", "content": content}


def make_task(id: str = "t0", prompt: str = "1+1=", answer: Any = "2", split: Split = "train", **changes: Any) -> Task:
    """A task with one user message."""
    fields = {"environment": "test", "prompt": (user(prompt),), "info": {}, "group": id} | changes
    return Task(id=id, answer=answer, split=split, **fields)


def make_task_set(*tasks: Task) -> TaskSet:
    """A task set whose fingerprint says little."""
    return TaskSet(tasks=tasks, fingerprint=f"{len(tasks)} tasks")


def make_rollout(
    task_id: str = "t0",
    sample: int = 0,
    *,
    prompt: Sequence[int] = (4, 13, 4, 14),
    completion: Sequence[int] = (5, 1),
    logprobs: Sequence[float] | None = None,
    **changes: Any,
) -> Rollout:
    """A rollout of given tokens; log-probabilities are -1 where sampled unless given."""
    sampled = [-1.0] * len(completion) if logprobs is None else list(logprobs)
    fields: dict[str, Any] = {
        "rollout_id": f"train-0-{task_id}-{sample}",
        "task_id": task_id,
        "sample": sample,
        "round": 0,
        "messages": (user("1+1="), {"role": "assistant", "content": "2"}),
        "token_ids": np.asarray([*prompt, *completion], dtype=np.int32),
        "loss_mask": np.asarray([False] * len(prompt) + [True] * len(completion)),
        "logprobs": np.asarray([0.0] * len(prompt) + sampled, dtype=np.float32),
        "prompt_length": len(prompt),
        "turns": 1,
        "tool_calls": 0,
        "tool_errors": 0,
        "state": {},
        "stop_reason": "stop",
        "truncated": False,
        "error": None,
        "seconds": 0.25,
        "policy": "policy-hash",
        "sampling": "temperature=1 max_completion_length=4",
        "environment": "environment-hash",
        "seed": 7,
    }
    return Rollout(**(fields | changes))


def make_reward(rollout: Rollout, total: float | None, **changes: Any) -> Reward:
    """The reward of a rollout; `None` is an error."""
    fields: dict[str, Any] = {
        "parts": {} if total is None else {"exact": total},
        "solved": total == 1.0,
        "answer": None,
        "error": Failure("compute_reward", "ValueError") if total is None else None,
        "seconds": 0.0,
    }
    return Reward(rollout_id=rollout.rollout_id, task_id=rollout.task_id, total=total, **(fields | changes))


def make_scored(totals: dict[str, Sequence[float | None]], **changes: Any) -> tuple[Rollouts, Rewards]:
    """Rollouts and rewards from {task id: totals of its samples}."""
    rows = [make_rollout(task, i, **changes) for task, group in totals.items() for i in range(len(group))]
    flat = [total for group in totals.values() for total in group]
    rewards = tuple(make_reward(rollout, total) for rollout, total in zip(rows, flat, strict=True))
    return Rollouts(tuple(rows)), Rewards(rewards, weights={"exact": 1.0})


def make_policy(
    architecture: Architecture = "qwen3",
    *,
    seed: int = 0,
    sharpness: float = 1.0,
    dtype: Literal["float32", "bfloat16"] = "float32",
    **shape: Any,
) -> Policy:
    """A from-scratch policy on the CPU; `sharpness` multiplies its weights, so that it prefers some tokens."""
    fields: dict[str, Any] = {
        "characters": CHARACTERS,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
    }
    scratch = FromScratchConfig(architecture=architecture, **(fields | shape))
    policy = create_policy(PolicyConfig(from_scratch=scratch, dtype=dtype, device="cpu"), seed=seed)
    for name, parameter in policy.model.named_parameters():
        if parameter.dim() > 1 and "norm" not in name:
            parameter.data *= sharpness
    return policy


def save_base(folder: Path, **options: Any) -> Path:
    """A model folder such as the hub gives: weights, config and tokenizer together."""
    policy = make_policy(**options)
    model = save_policy(policy, folder).path / "model"
    policy.tokenizer.save_pretrained(model)
    return model


def make_lora_policy(base: Path, *, seed: int = 0, rank: int = 4) -> Policy:
    """A policy with an adapter on the model in `base`."""
    return create_policy(PolicyConfig(model=str(base), lora=LoraSettings(rank=rank), device="cpu"), seed=seed)


def make_training(**changes: Any) -> TrainingConfig:
    """Training settings that move a small model visibly."""
    return TrainingConfig(**({"learning_rate": 1e-2, "num_generations": 4, "tasks_per_round": 4} | changes))


class FirstCharacter(BaseEnv):
    """1 when the answer begins with the task's answer."""

    async def compute_reward(self, completion: Trajectory, ground_truth: Any) -> dict[str, float | None]:
        """Only the first character counts."""
        return {"exact": float(completion.text[:1] == ground_truth)}
