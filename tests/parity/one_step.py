"""A whole round by TRL's own trainer and by rlft: the same weights, rollouts and rewards in, weights out.

TRL generates nothing here: its `rollout_func` hands over the tokens of our rollouts. All else is its own code, from
padding to AdamW. What differs by default is set alike: no schedule, no short types, no order drawn at random.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor
from transformers import AutoModelForCausalLM
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from rlft.config import PolicyConfig
from rlft.models import Policy
from rlft.models.origin import create_policy
from rlft.training import trainer
from rlft.training.trainer import prepare_optimizer, train_round
from rlft.types import Rewards, Rollout, Rollouts, TrainReport
from tests.factories import make_policy, make_reward, make_rollout, make_training

GROUP, MAX_LENGTH, EOS = 4, 9, 1
PROMPTS = ([4, 5, 6], [7, 8, 9, 10, 11, 3, 4], [12])
Weights = dict[str, Tensor]


@dataclasses.dataclass(frozen=True)
class Round:
    """Rollouts and their rewards, a prompt's after another's."""

    rollouts: list[Rollout]
    rewards: list[float | None]

    def column(self, name: str) -> list[list[Any]]:
        """A field of every rollout, for the tokens after its prompt."""
        return [getattr(rollout, name)[rollout.prompt_length :].tolist() for rollout in self.rollouts]


def random_round(seed: int, *, holes: bool = False) -> Round:
    """Completions of 1 to 9 tokens; half end with the end token, the others are cut off."""
    generator = np.random.default_rng(seed)
    rollouts: list[Rollout] = []
    rewards: list[float | None] = []
    for number, prompt in enumerate(PROMPTS):
        for sample in range(GROUP):
            completion = generator.integers(3, 16, generator.integers(1, MAX_LENGTH + 1))
            if sample % 2 == 0:
                completion[-1] = EOS
            sampled = np.ones(len(completion), dtype=bool)
            if holes:
                sampled[1:3] = False  # what a tool wrote
                sampled[0] = True
            mask = np.concatenate([np.zeros(len(prompt), dtype=bool), sampled])
            fields = {"prompt": prompt, "completion": completion, "loss_mask": mask, "truncated": sample % 2 == 1}
            rollouts.append(make_rollout(f"t{number}", sample, **fields))
            rewards.append(float(generator.random()))
    return Round(rollouts, rewards)


def by_trl(base: Path, given: Round, folder: Path, *, updates: int = 1, **options: Any) -> tuple[Weights, GRPOTrainer]:
    """The weights after `updates` steps over the same rollouts."""
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    fixed = {
        "output_dir": str(folder),
        "use_cpu": True,
        "bf16": False,
        "report_to": [],
        "save_strategy": "no",
        "disable_tqdm": True,
        "logging_steps": 1,
        "max_steps": updates,
        "num_iterations": updates,
        "lr_scheduler_type": "constant",
        "gradient_checkpointing": False,
        "per_device_train_batch_size": len(given.rollouts),
        "num_generations": GROUP,
        "max_completion_length": MAX_LENGTH,
        "shuffle_dataset": False,
    }

    def rollout_func(prompts: list[str], trainer: Any) -> dict[str, Any]:
        assert prompts == [str(number) for number in range(len(PROMPTS)) for _ in range(GROUP)]
        return {
            "prompt_ids": [rollout.token_ids[: rollout.prompt_length].tolist() for rollout in given.rollouts],
            "completion_ids": given.column("token_ids"),
            "logprobs": given.column("logprobs"),
            "env_mask": [[int(sampled) for sampled in row] for row in given.column("loss_mask")],
        }

    trainer = GRPOTrainer(
        model,
        lambda completions, **_: given.rewards,
        GRPOConfig(**(fixed | options)),
        Dataset.from_dict({"prompt": [str(number) for number in range(len(PROMPTS))]}),
        processing_class=make_policy().tokenizer,
        rollout_func=rollout_func,
    )
    trainer.train()
    return weights(model), trainer


def by_rlft(
    base: Path, given: Round, *, temperature: float, updates: int = 1, reference: Policy | None = None, **options: Any
) -> tuple[Weights, TrainReport]:
    """The same by `train_round`; the rollouts are taken for the policy's own, as TRL takes them."""
    policy = load(base)
    settings = make_training(num_iterations=updates, max_kl=1e9, **options)
    prepare_optimizer(policy, settings, None)
    rollouts = [recorded(policy, rollout, temperature) for rollout in given.rollouts]
    rewards = tuple(make_reward(rollout, total) for rollout, total in zip(rollouts, given.rewards, strict=True))
    report = train_round(
        policy,
        Rollouts(tuple(rollouts)),
        Rewards(rewards, weights={}),
        settings,
        trainer.Round(number=0, temperature=temperature, max_completion_length=MAX_LENGTH),
        reference=reference,
    )
    assert report.stopped is None
    return weights(policy.model), report


def load(base: Path) -> Policy:
    """The policy that both start from."""
    return create_policy(PolicyConfig(model=str(base), device="cpu"), seed=0)


def recorded(policy: Policy, rollout: Rollout, temperature: float) -> Rollout:
    """The rollout as the policy's own engine would have recorded it."""
    ids = torch.tensor(rollout.token_ids.tolist())
    with torch.no_grad():
        everything = (policy.model(ids[None]).logits[0] / temperature).log_softmax(-1)
    logprobs = np.zeros(len(ids), dtype=np.float32)
    logprobs[1:] = everything[:-1].gather(1, ids[1:, None]).squeeze(1).numpy()
    logprobs[~rollout.loss_mask] = 0
    return dataclasses.replace(rollout, logprobs=logprobs, policy=policy.identity)


def weights(model: Any) -> Weights:
    """A copy of all parameters."""
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
