"""TRL's own code, run without a model: its trainer's methods on a stand-in that hands them our numbers.

What is called is `GRPOTrainer._generate_and_score_completions` (advantages, ratio of trainer and engine), then
`GRPOTrainer._compute_loss` on what it returned; and the former of `RLOOTrainer`. The stand-in replaces generation,
the forward pass, the scores and the communication of several processes, and nothing that computes.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.rloo_trainer import RLOOTrainer

GROUP = 4
LOGS = ("prompt", "completion", "rewards", "advantages", "extra")
# The options that matter before the loss; what comes of them is kept, as all losses share it.
SCORING = ("importance_sampling_correction", "importance_sampling_min", "importance_sampling_max", "old_is_new")
CORRECTIONS = ["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"]


@dataclass(frozen=True, eq=False)
class Samples:
    """Two groups of rollouts: log-probabilities float64 [8, tokens], the mask, and rewards [8], or [8, parts]."""

    lengths: list[int]
    tool_mask: Tensor
    new: Tensor
    old: Tensor
    ref: Tensor
    sampling: Tensor
    rewards: Tensor

    @property
    def mask(self) -> Tensor:
        """Where the model sampled a token: neither padding nor what a tool wrote."""
        return (torch.arange(self.new.shape[1]) < torch.tensor(self.lengths)[:, None]) & self.tool_mask.bool()

    @property
    def scores(self) -> Tensor:
        """The scores [rollouts, parts] of one part or of several."""
        return self.rewards if self.rewards.ndim == 2 else self.rewards[:, None]

    def rows(self, start: int, stop: int) -> Samples:
        """Some of the rollouts, as wide as before."""
        fields = {name: getattr(self, name)[start:stop] for name in self.__dataclass_fields__}
        return Samples(**fields)


def random_samples(seed: int, *, empty_row: bool = False) -> Samples:
    """Uneven lengths, holes where a tool wrote, ratios on both sides of every bound; garbage in the padding."""
    generator = torch.Generator().manual_seed(seed)
    rows, width = 2 * GROUP, 7
    lengths = [width, *torch.randint(1, width + 1, (rows - 1,), generator=generator).tolist()]
    tool_mask = (torch.rand(rows, width, generator=generator) > 0.3).long()
    tool_mask[:, 0] = 1
    if empty_row:
        tool_mask[2] = 0

    def noise(scale: float) -> Tensor:
        return scale * torch.randn(rows, width, generator=generator, dtype=torch.float64)

    old = -3 * torch.rand(rows, width, generator=generator, dtype=torch.float64) - 0.1
    sampling = (old + noise(0.25)).float().double()  # TRL makes a float32 tensor of what the engine recorded
    rewards = torch.rand(rows, generator=generator, dtype=torch.float64)
    return Samples(lengths, tool_mask, old + noise(0.5), old, old + noise(0.5), sampling, rewards)


class StandIn(SimpleNamespace):
    """What the methods of a trainer ask of `self`, for one process, one micro-batch and text only."""

    def __init__(self, samples: Samples, options: dict[str, Any]) -> None:
        correction = options.get("importance_sampling_correction")
        reuse = options.get("old_is_new", False)
        args = SimpleNamespace(
            delta=options.get("delta"),
            use_bias_correction_kl=options.get("kl_importance_weighted", False),
            sapo_temperature_pos=options.get("sapo_temperature_pos", 1.0),
            sapo_temperature_neg=options.get("sapo_temperature_neg", 1.0),
            steps_per_generation=1,
            gradient_accumulation_steps=1,
            gradient_checkpointing_kwargs=None,
            per_device_train_batch_size=len(samples.lengths),
        )
        accelerator = SimpleNamespace(
            device=torch.device("cpu"),
            num_processes=1,
            process_index=0,
            gather=lambda tensor: tensor,
            reduce=lambda tensor, reduction: tensor,
        )
        super().__init__(
            args=args,
            accelerator=accelerator,
            model=SimpleNamespace(training=True, is_gradient_checkpointing=False),
            ref_model="reference",
            loss_type=options.get("loss_type", "dapo"),
            importance_sampling_level=options.get("importance_sampling_level", "token"),
            epsilon_low=options.get("epsilon", 0.2),
            epsilon_high=options.get("epsilon_high", options.get("epsilon", 0.2)),
            beta=options.get("beta", 0.0),
            scale_rewards=options.get("scale_rewards", "group"),
            max_completion_length=options.get("max_completion_length"),
            use_vllm=correction is not None,
            vllm_importance_sampling_correction=correction is not None,
            vllm_importance_sampling_mode=correction,
            vllm_importance_sampling_clip_min=options.get("importance_sampling_min"),
            vllm_importance_sampling_clip_max=options.get("importance_sampling_max", 3.0),
            num_iterations=1 if reuse else 2,  # with one, TRL takes the new log-probabilities for the old
            num_generations=GROUP,
            current_gradient_accumulation_steps=1,
            multi_objective_aggregation="sum_then_normalize",
            reward_weights=options.get("reward_weights", torch.ones(1, dtype=torch.float64)),
            reward_clip_range=None,
            normalize_advantages=False,
            reward_funcs=[None] * samples.scores.shape[1],
            reward_func_names=[f"reward{number}" for number in range(samples.scores.shape[1])],
            _tokenizer=SimpleNamespace(pad_token_id=0),
            environment_factories=None,
            environments=None,
            tools=[],
            pad_to_multiple_of=None,
            mask_truncated_completions=False,
            top_entropy_quantile=1.0,
            off_policy_mask_threshold=None,
            aux_loss_enabled=False,
            _entropy_bonus_enabled=False,
            log_multimodal=False,
            _pending_extra_logs={},
            _pending_metrics={},
            _metrics={"train": defaultdict(list)},
            _logs={name: defaultdict(list) if name in ("rewards", "extra") else [] for name in LOGS},
        )
        self.samples = samples

    def metrics(self) -> dict[str, float]:
        return {name: sum(values) / len(values) for name, values in self._metrics["train"].items()}

    def _generate(self, prompts: list[Any]) -> tuple[Any, ...]:
        samples = self.samples
        completions = [[1] * length for length in samples.lengths]
        tools = [row[:n].tolist() for row, n in zip(samples.tool_mask, samples.lengths, strict=True)]
        logprobs = [row[:n].tolist() for row, n in zip(samples.sampling, samples.lengths, strict=True)]
        return [[1]] * len(completions), completions, tools, completions, logprobs, {}, None, []

    def _calculate_rewards(self, *_: Any) -> Tensor:
        return self.samples.scores

    def _get_per_token_logps_and_entropies(self, model: Any, *_: Any, **__: Any) -> tuple[Tensor, Tensor, None]:
        """Of the policy when it samples, of the reference, or (a tensor in the place of the model) of the update."""
        found = model if isinstance(model, Tensor) else self.samples.ref if model == "reference" else self.samples.old
        return found, torch.zeros_like(found), None


@dataclass
class Found:
    """What TRL made of the samples."""

    loss: float
    gradient: Tensor
    advantages: Tensor
    metrics: dict[str, float]


def trl_loss(samples: Samples, *, advantages: Tensor | None = None, **options: Any) -> Found:
    """Loss and gradient by `samples.new`; `advantages` in the place of TRL's own."""
    inputs, metrics = _scored(GRPOTrainer, samples, **{name: options[name] for name in SCORING if name in options})
    inputs = inputs if advantages is None else inputs | {"advantages": advantages}
    trainer: Any = StandIn(samples, options)
    new = samples.new.clone().requires_grad_()
    loss = GRPOTrainer._compute_loss(trainer, new, inputs)
    loss.backward()
    assert new.grad is not None
    return Found(loss.item(), new.grad, inputs["advantages"], metrics | trainer.metrics())


def trl_advantages(samples: Samples, scale_rewards: str) -> Tensor:
    """Advantages [rollouts] of the GRPO trainer."""
    return _scored(GRPOTrainer, samples, scale_rewards=scale_rewards)[0]["advantages"]


def trl_leave_one_out(samples: Samples) -> Tensor:
    """Advantages [rollouts] of the RLOO trainer."""
    return _scored(RLOOTrainer, samples)[0]["advantages"]


@functools.cache
def _scored(kind: Any, samples: Samples, **options: Any) -> tuple[dict[str, Any], dict[str, float]]:
    trainer: Any = StandIn(samples, options | {"beta": 0.0 if kind is RLOOTrainer else 1.0})
    if kind is RLOOTrainer:  # its generation returns less
        generated = trainer._generate(None)
        trainer._generate = lambda prompts: (generated[0], generated[1], generated[3])
    inputs = kind._generate_and_score_completions(trainer, [{"prompt": "p"}] * len(samples.lengths))
    return inputs, trainer.metrics()
