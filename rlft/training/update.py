"""Takes the optimizer steps of one round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from rlft.attention.interface import attending
from rlft.config import TrainingConfig
from rlft.policy import Policy
from rlft.policy.fused import fused
from rlft.policy.sharding import of_one_update
from rlft.progress import Meter, silent
from rlft.training.batching import Batch, Pair
from rlft.training.checkpointing import gradient_checkpointing
from rlft.training.chosen_loss import chosen_loss
from rlft.training.limits import Limits
from rlft.training.logprobs import token_logprobs
from rlft.training.loss import Part, Whole, policy_loss
from rlft.training.old_logprobs import OldLogprobs
from rlft.training.optimizer import learning_rate
from rlft.training.parts import make_batch
from rlft.training.reading import Reading, shortest
from rlft.training.tally import Tally
from rlft.training.world import ALONE, World


class Updater:
    """Takes the optimizer steps of one round, and tallies what its metrics are made of.

    `max_logp_difference` bounds the mean difference of log-probabilities between sampling and training, in nats; `None`
    means no bound. Of `lagged` rollouts, which the policy of an earlier round has sampled, ratios and the change by an
    update are taken from the policy before this round. `meter` counts the rollouts
    that are encoded here, in every update again. Every trainer of a `world` has an updater of its own, and all call the
    same methods with the same arguments. Raises DistributedError if their devices do not compute the model alike.
    """

    def __init__(
        self,
        policy: Policy,
        settings: TrainingConfig,
        *,
        temperature: float,
        max_completion_length: int,
        reference: Policy | None,
        max_logp_difference: float | None = None,
        meter: Meter | None = None,
        world: World = ALONE,
        lagged: bool = False,
    ) -> None:
        self.policy, self.settings, self.reference = policy, settings, reference
        self.world, self.meter = world, meter or Meter(silent, None, "rollouts")
        self.loss = chosen_loss(settings)
        policy.find_out()  # it runs the model with its own attention, so before `attending` replaces that
        world.check_alike(policy)
        self.temperature, self.max_completion_length = temperature, max_completion_length
        correction = settings.importance_sampling_correction
        self.reading = Reading(policy, world, temperature, settings.per_step_token_budget)
        self.old = OldLogprobs(self.reading, corrected=correction is not None, lagged=lagged)
        self.limits = Limits(
            self.reading,
            self.old,
            max_kl=settings.max_kl,
            max_logp_difference=max_logp_difference,
            meter=self.meter,
        )
        self.tally = Tally(correction, settings.importance_sampling_max)
        self.count = 0

    def step(
        self, groups: Sequence[Sequence[Pair]], *, silent_rollouts: float = 0.0, silent_tokens: float = 0.0
    ) -> None:
        """Take one optimizer step over these groups.

        The mean of the loss also counts `silent_rollouts` and `silent_tokens`, which add nothing to its sum.

        Raises TrainingStopped before the weights change if the loss or the gradient's norm is not finite, or if the
        engine sampled with other weights; and afterwards if the policy has moved further than `training.max_kl`.
        """
        policy, settings = self.policy, self.settings
        assert policy.optimizer is not None, "prepare_optimizer first"
        policy.model.eval()  # dropout would make the ratio differ from 1 before anything was learnt
        policy.optimizer.zero_grad()  # an update that was stopped leaves gradients behind
        pairs = [pair for group in groups for pair in group]
        whole = Whole(
            num_items=silent_tokens + sum(int(rollout.loss_mask.sum()) for rollout, _ in pairs),
            num_rollouts=silent_rollouts + len(pairs),
            max_completion_length=self.max_completion_length,
        )
        with policy.optimizer.accumulating():
            parts = self.world.level(self.reading.parts(self.reading.share(groups)))
            passes = of_one_update(policy.sharded, parts)
            losses = [self._backward(part, whole) if part else self._pass_idly(groups) for part in passes]
        (loss,) = self.world.total([sum(losses)])
        if self.count == 0:  # later updates have moved away from the sampling policy on purpose
            self.limits.check_sampling(pairs, self.tally.together(self.world).mean_difference)
        norm = policy.optimizer.clip(settings.max_grad_norm)
        self.limits.check_step(loss, norm, self.count + 1)
        rate = learning_rate(settings, policy.metadata.update)
        policy.optimizer.step(rate)
        policy.note_change(update=policy.metadata.update + 1)
        self.count += 1
        self.tally.note_update(policy_loss=loss, grad_norm=norm, learning_rate=rate)
        if (kl := self.limits.change(groups)) is not None:
            self.tally.note_update(kl_update=kl)
            self.limits.check_change(kl, groups, self.count)

    def metrics(self) -> dict[str, float]:
        """Return means over tokens or updates of this round, by the names in docs/guide/training.md."""
        return self.tally.together(self.world).metrics(with_kl=bool(self.settings.beta))

    def _backward(self, pairs: Sequence[Pair], whole: Whole) -> float:
        """Add this part's gradients and return its loss; the losses of the parts add up to that of the batch."""
        settings, batch = self.settings, make_batch(self.policy, pairs)
        # Before the policy's pass: between that and its backward pass, sharded weights must be left as they are.
        reference = self._reference_logprobs(pairs, batch) if settings.beta else None
        with self._differentiating(batch):
            found = token_logprobs(self.policy, batch, self.temperature)
            own = found.logprobs.detach()
            part = Part(
                found.logprobs,
                self.old.of(pairs, batch, own, first=self.count == 0),
                batch.advantages,
                batch.mask,
                ref_logprobs=reference,
                sampling_logprobs=batch.logprobs,
            )
            report = policy_loss(part, whole, self.loss, settings)
            report.loss.backward()
        assert found.entropy is not None
        self.tally.note_read(batch)
        self.tally.note_part(report, found.entropy)
        if self.count == 0:
            self.tally.note_sampling(own, batch, report.importance_sampling_ratio)
        self.meter.add(len(pairs), tokens=sum(int(rollout.loss_mask.sum()) for rollout, _ in pairs))
        return float(report.loss.detach())

    def _pass_idly(self, groups: Sequence[Sequence[Pair]]) -> float:
        """Take part in a pass of the other trainers, without adding to any gradient; return the loss of that, 0."""
        pairs = shortest(groups)
        batch = make_batch(self.policy, pairs)
        if self.settings.beta:
            self._reference_logprobs(pairs, batch)
        with self._differentiating(batch):
            (0.0 * self.reading.logprobs(batch).sum()).backward()
        return 0.0

    @contextmanager
    def _differentiating(self, batch: Batch) -> Iterator[None]:
        """Have the model read `batch` as training does: forwards and backwards inside the context."""
        packed: AbstractContextManager[Any] = attending(self.policy.model) if batch.attention else nullcontext()
        again = gradient_checkpointing(self.policy.model, self.settings.gradient_checkpointing)
        with packed, again, fused(self.policy.fusible):
            yield

    def _reference_logprobs(self, pairs: Sequence[Pair], batch: Batch) -> Tensor:
        reader = self.reference or self.policy
        switched_off = nullcontext() if self.reference else self.policy.model.disable_adapter()
        if reader.shares_prompts != self.policy.shares_prompts:
            batch = make_batch(reader, pairs)
        # Fused as the policy is: rounding of one of them alone would be a gradient where the two are equal.
        with torch.no_grad(), switched_off, fused(reader.fusible):
            return token_logprobs(reader, batch, self.temperature, with_entropy=False).logprobs
