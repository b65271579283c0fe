"""The arm `trl` of the learning benchmark: TRL's GRPOTrainer with the settings of rlft's config.

The same as in rlft's `dapo`: the weights at the start, the tasks of every round and their order, rollouts and optimizer
steps a round, reward, AdamW with its learning rate and warm-up, gradient norm, temperature, loss, clipping, scaling of
rewards, no reference, no dropout, float32.

Different, and left as TRL does it:
- the random numbers that sampling draws;
- the rollouts of a round are shuffled before they are dealt out to its updates, in rlft each group is dealt out evenly;
- groups without variance are read too, which changes nothing but the time;
- without an engine that corrects for it, the ratio of every update is to log-probabilities that TRL computes again
  after sampling; rlft takes those recorded while sampling, and exactly 1 in the first update.
"""

from __future__ import annotations

import asyncio
import copy
import statistics
import tempfile
from typing import Any

import torch
from datasets import Dataset
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from benchmarks.grpo_step_trl import cpu_tokens
from benchmarks.learning_bench import Bench
from rlft.config import Config
from rlft.environments.contract.base import BaseEnv, prompt_messages
from rlft.models import Policy
from rlft.models.tokens import render_prompt
from rlft.rewards.rubric import combine
from rlft.tasks.curriculum import tasks_of_round
from rlft.training.trainer import learning_rate
from rlft.types import Message, Task, Trajectory


def trl_settings(config: Config, folder: str, longest: int, vocabulary: int) -> GRPOConfig:
    """rlft's settings in TRL's words; `longest` is the most tokens of a prompt with its completion.

    As many rollouts are read at the same time as was fastest on a CPU, and their gradients added up.
    """
    own = config.training
    rollouts = own.tasks_per_round * own.num_generations
    if rollouts % own.updates_per_round:
        raise ValueError(f"TRL cannot deal {rollouts} rollouts out to {own.updates_per_round} equal updates")
    update, most = rollouts // own.updates_per_round, max(1, cpu_tokens(vocabulary) // longest)
    at_once = max(rows for rows in range(1, update + 1) if update % rows == 0 and rows <= most)
    return GRPOConfig(
        output_dir=folder,
        seed=config.seed,
        max_steps=config.training.rounds * own.updates_per_round,
        per_device_train_batch_size=at_once,
        gradient_accumulation_steps=update // at_once,
        steps_per_generation=rollouts // at_once,
        num_generations=own.num_generations,
        num_iterations=own.num_iterations,
        max_completion_length=config.rollout.max_completion_length,
        temperature=config.rollout.temperature,
        max_grad_norm=own.max_grad_norm,
        beta=own.beta,
        epsilon=own.epsilon,
        epsilon_high=own.epsilon_high,
        loss_type=own.loss_type,
        scale_rewards=own.scale_rewards,
        mask_truncated_completions=own.mask_truncated_completions,
        shuffle_dataset=False,  # the rows come in the order of rlft's rounds
        disable_dropout=True,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=config.policy.device == "cpu" or not torch.cuda.is_available(),
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


def make_rows(bench: Bench, policy: Policy) -> Dataset:
    """One row per task and round. Raises ValueError where TRL would read a prompt differently."""
    own, rows = bench.config.training, []
    for number in range(own.rounds):
        for task in tasks_of_round(bench.task_set, round=number, count=own.tasks_per_round, seed=bench.config.seed):
            ids = render_prompt(policy.tokenizer, prompt_messages(task, bench.environment))
            text = policy.tokenizer.decode(ids)  # with the words of a chat template, which TRL then reads as they stand
            if list(policy.tokenizer(text).input_ids) != ids:
                raise ValueError(f"task {task.id}: its prompt has other tokens in TRL than in rlft")
            rows.append({"prompt": text, "task_id": task.id, "tokens": len(ids)})
    return Dataset.from_list(rows)


class EnvironmentReward:
    """An rlft environment as a reward function for TRL; `means` holds the mean reward of every round."""

    __name__ = "environment"

    def __init__(self, environment: BaseEnv, tasks: dict[str, Task], weights: dict[str, float]) -> None:
        self.environment, self.tasks, self.weights = environment, tasks, weights
        self.means: list[float] = []

    def __call__(self, completions: list[str], task_id: list[str], **_: Any) -> list[float]:
        async def score_all() -> list[float]:
            return [await self._score(text, self.tasks[key]) for text, key in zip(completions, task_id, strict=True)]

        totals = asyncio.run(score_all())
        self.means.append(statistics.fmean(totals))
        return totals

    async def _score(self, text: str, task: Task) -> float:
        answer = Trajectory([Message(role="assistant", content=text)], task=task, state={}, truncated=False)
        return combine(await self.environment.compute_reward(answer, task.answer), self.weights)


class Examiner(TrainerCallback):
    """After every round copies TRL's weights into an rlft policy, and has that sit the exam if it is time."""

    def __init__(self, bench: Bench, policy: Policy, model: torch.nn.Module) -> None:
        self.bench, self.policy, self.model = bench, policy, model

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        rounds, rest = divmod(state.global_step, self.bench.config.training.updates_per_round)
        if rest == 0:
            self.policy.model.load_state_dict(self.model.state_dict())
            self.bench.examine(self.policy, rounds)


def train_trl(bench: Bench, policy: Policy) -> list[float]:
    """All rounds with TRL, from the weights of `policy`, which ends with the trained ones; the mean reward of each."""
    config, own = bench.config, bench.config.training
    model, rows = copy.deepcopy(policy.model), make_rows(bench, policy)
    longest = max(rows["tokens"]) + config.rollout.max_completion_length
    reward = EnvironmentReward(bench.environment, bench.task_set.by_id(), config.reward.weights)
    optimizer = torch.optim.AdamW(
        [weight for weight in model.parameters() if weight.requires_grad],
        lr=own.learning_rate,
        betas=(own.adam_beta1, own.adam_beta2),
        weight_decay=own.weight_decay,
    )
    # rlft's schedule: that of transformers gives the first update a rate of 0
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: learning_rate(own, n) / own.learning_rate)
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=reward,
            args=trl_settings(config, folder, longest, model.config.vocab_size),
            train_dataset=rows,
            processing_class=policy.tokenizer,
            callbacks=[Examiner(bench, policy, model)],
            optimizers=(optimizer, schedule),
        )
        trainer.train()
    return reward.means
