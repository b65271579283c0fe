"""One round of GRPO: stored rollouts and rewards in, a changed policy and the fate of every rollout out."""

from __future__ import annotations

import dataclasses
import math
import time
from collections import defaultdict
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from rlft.config import TrainingConfig
from rlft.policy.folder import Policy, PolicyFolder, load_moments
from rlft.training.batching import Batch, make_batch, split_by_tokens
from rlft.training.ledger import plan_training
from rlft.training.logprobs import token_logprobs
from rlft.training.loss import LossReport, policy_loss
from rlft.types import Rewards, Rollout, Rollouts, TrainReport

Pair = tuple[Rollout, float]


class TrainingStopped(Exception):
    """The numbers went wrong; the policy in memory is no good any more, the stored one is."""


def train_round(
    policy: Policy,
    rollouts: Rollouts,
    rewards: Rewards,
    settings: TrainingConfig,
    *,
    round: int,
    temperature: float,
    max_completion_length: int,
    reference: Policy | None = None,
) -> TrainReport:
    """Change `policy` in place by `settings.updates_per_round` optimizer steps.

    Groups without variance are not encoded. Old log-probabilities are those of the sampling. When `reference` is
    needed (`beta` above 0) and not given, the policy's base weights with the adapter off are the reference.

    Returns a report whose `stopped` is set, and whose rollouts are all `filtered:round_undone`, when the loss, a
    gradient or the KL went out of bounds: then `policy` must be loaded again from its folder.
    """
    if settings.beta and reference is None and policy.metadata.kind == "full":
        raise ValueError("beta is not 0 and the policy has no adapter to switch off: give a reference policy")
    started = time.perf_counter()
    plan = plan_training(
        rollouts,
        rewards,
        scale=settings.scale_rewards,
        mask_truncated_completions=settings.mask_truncated_completions,
    )
    fates = {rollout.rollout_id: plan.fates.get(rollout.rollout_id, "trained") for rollout in rollouts}
    update = _Update(policy, settings, temperature, max_completion_length, reference)
    stopped = None
    try:
        for groups in _deal(plan.groups, settings.updates_per_round):
            update.step([pair for group in groups for pair in group])
    except TrainingStopped as reason:
        stopped = str(reason)
        fates = {key: "filtered:round_undone" if fate == "trained" else fate for key, fate in fates.items()}
    return TrainReport(
        round=round,
        metrics=update.metrics(),
        fates=fates,
        updates=0 if stopped else update.count,
        seconds=time.perf_counter() - started,
        stopped=stopped,
    )


def prepare_optimizer(policy: Policy, settings: TrainingConfig, folder: PolicyFolder | None) -> None:
    """Give the policy an AdamW optimizer, with the state stored in `folder` if there is one.

    Without stored state the optimizer is new, and `metadata.update` counts from 0 again.
    """
    if policy.optimizer is None:
        policy.optimizer = torch.optim.AdamW(
            policy.trainable().values(),
            lr=settings.learning_rate,
            betas=(settings.adam_beta1, settings.adam_beta2),
            weight_decay=settings.weight_decay,
        )
        if folder is not None:
            load_moments(policy, folder)
        if not policy.optimizer.state:
            policy.metadata = dataclasses.replace(policy.metadata, update=0)


def _deal(groups: list[list[Pair]], updates: int) -> list[list[list[Pair]]]:
    """Split groups over updates as evenly as they go; fewer groups than updates make fewer updates."""
    count = min(updates, len(groups))
    bounds = [round(i * len(groups) / count) for i in range(count + 1)] if count else [0]
    return [groups[a:b] for a, b in pairwise(bounds)]


class _Update:
    """Optimizer steps over one round, and the sums their metrics are made of."""

    def __init__(
        self,
        policy: Policy,
        settings: TrainingConfig,
        temperature: float,
        max_completion_length: int,
        reference: Policy | None,
    ) -> None:
        self.policy, self.settings, self.reference = policy, settings, reference
        self.temperature, self.max_completion_length = temperature, max_completion_length
        self.count = 0
        self.sums: dict[str, float] = defaultdict(float)
        self.maxima: dict[str, float] = {}
        self.first_difference = self.first_tokens = 0.0
        self.per_update: dict[str, list[float]] = defaultdict(list)

    def step(self, pairs: list[Pair]) -> None:
        """One optimizer step over these rollouts. Raises TrainingStopped before a bad number reaches the weights."""
        policy, settings = self.policy, self.settings
        assert policy.optimizer is not None, "prepare_optimizer first"
        policy.model.eval()  # dropout would make the ratio differ from 1 before anything was learnt
        policy.optimizer.zero_grad(set_to_none=True)  # a round that was stopped leaves gradients behind
        num_items = float(sum(int(rollout.loss_mask.sum()) for rollout, _ in pairs))
        parts = split_by_tokens([len(rollout.token_ids) for rollout, _ in pairs], settings.per_step_token_budget)
        batches = [self._batch([pairs[i] for i in part]) for part in parts]
        loss = sum(self._backward(batch, num_items, len(pairs)) for batch in batches)
        norm = float(torch.nn.utils.clip_grad_norm_(policy.trainable().values(), settings.max_grad_norm))
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise TrainingStopped(f"loss {loss:g}, gradient norm {norm:g} in update {self.count + 1}")
        rate = settings.learning_rate * min(1.0, (policy.metadata.update + 1) / max(settings.warmup_updates, 1))
        for group in policy.optimizer.param_groups:
            group["lr"] = rate
        policy.optimizer.step()
        policy.optimizer.zero_grad(set_to_none=True)
        policy.metadata = dataclasses.replace(policy.metadata, update=policy.metadata.update + 1)
        self.count += 1
        for name, value in (("policy_loss", loss), ("grad_norm", norm), ("learning_rate", rate)):
            self.per_update[name].append(value)
        self._check_change(batches[-1])

    def metrics(self) -> dict[str, float]:
        """Means over tokens or updates of this round, under the names of the documentation."""
        means = {name: sum(values) / len(values) for name, values in self.per_update.items()}
        tokens = self.sums.get("tokens", 0.0)
        if tokens:
            means |= {name: value / tokens for name, value in self.sums.items() if name != "tokens"}
            means["sampling/sampling_logp_difference/mean"] = self.first_difference / self.first_tokens
            means["clip_ratio/region_mean"] = means["clip_ratio/low_mean"] + means["clip_ratio/high_mean"]
            if not self.settings.beta:
                means.pop("kl")
        return means | self.maxima

    def _batch(self, pairs: list[Pair]) -> Batch:
        return make_batch([rollout for rollout, _ in pairs], [a for _, a in pairs], self.policy.device)

    def _backward(self, batch: Batch, num_items: float, num_rollouts: int) -> float:
        """Add this part's gradients; the parts of a batch add up to the loss of the batch."""
        settings = self.settings
        logprobs, entropy = token_logprobs(self.policy.model, batch, self.temperature)
        report = policy_loss(
            logprobs,
            batch.logprobs,
            batch.advantages,
            batch.mask,
            loss_type=settings.loss_type,
            epsilon=settings.epsilon,
            epsilon_high=settings.epsilon_high,
            beta=settings.beta,
            ref_logprobs=self._reference_logprobs(batch) if settings.beta else None,
            max_completion_length=self.max_completion_length,
            num_items=num_items,
            num_rollouts=num_rollouts,
        )
        report.loss.backward()
        self._note(report, logprobs.detach(), entropy, batch)
        return float(report.loss.detach())

    def _reference_logprobs(self, batch: Batch) -> Tensor:
        model: Any = self.reference.model if self.reference else self.policy.model
        switched_off = nullcontext() if self.reference else model.disable_adapter()
        with torch.no_grad(), switched_off:
            return token_logprobs(model, batch, self.temperature)[0]

    def _note(self, report: LossReport, logprobs: Tensor, entropy: Tensor, batch: Batch) -> None:
        mask = batch.mask.bool()
        self.sums["tokens"] += report.tokens
        self.sums["entropy"] += entropy[mask].sum().item()
        self.sums["kl"] += report.kl
        self.sums["clip_ratio/low_mean"] += report.clipped_low
        self.sums["clip_ratio/high_mean"] += report.clipped_high
        if self.count == 0:  # later updates have moved away from the sampling policy on purpose
            difference = (logprobs - batch.logprobs)[mask].abs()
            key = "sampling/sampling_logp_difference/max"
            self.maxima[key] = max(self.maxima.get(key, 0.0), difference.max().item())
            self.first_difference += difference.sum().item()
            self.first_tokens += report.tokens

    def _check_change(self, batch: Batch) -> None:
        """Measure on one part how far the update moved the policy from the one that sampled (k3 estimate)."""
        with torch.no_grad():
            logprobs, _ = token_logprobs(self.policy.model, batch, self.temperature)
            distance = (logprobs - batch.logprobs)[batch.mask.bool()]
            kl = (distance.exp() - 1 - distance).mean().item()
        self.per_update["kl_update"].append(kl)
        if not kl <= self.settings.max_kl:  # also true for NaN
            raise TrainingStopped(
                f"KL {kl:g} to the sampling policy after update {self.count} exceeds training.max_kl "
                f"{self.settings.max_kl:g}; lower training.learning_rate"
            )
