"""Optimizer steps over one round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from rlft.attention.interface import attending
from rlft.config import TrainingConfig
from rlft.policy import Policy
from rlft.policy.fused import fused
from rlft.progress import Meter, Progress, silent
from rlft.training.batching import Batch, Pair, pack_groups, packed_tokens, pad_rows, split_by_tokens, split_groups
from rlft.training.checkpointing import gradient_checkpointing
from rlft.training.chosen_loss import chosen_loss
from rlft.training.logprobs import token_logprobs
from rlft.training.loss import Part, Whole, policy_loss
from rlft.training.optimizer import learning_rate
from rlft.training.tally import Tally
from rlft.types import Rollout

_CPU_TOKENS, _GPU_TOKENS = 3072, 16384  # more are no faster on a CPU: what is freed between them is paged in again
_CHECKED_SHARE = 1 / 16  # of an update's tokens: cheap, and enough to see that nothing has happened
_SUSPECT = 1 / 4  # of `max_kl`: what so few tokens may show of a policy that has fallen apart (docs/LOG.md)


class TrainingStopped(Exception):
    """The numbers went wrong; the policy in memory is no good any more, the stored one is."""


class Updater:
    """Takes the optimizer steps of one round, and tallies what its metrics are made of."""

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
    ) -> None:
        self.meter = meter or Meter(silent, None, "rollouts")  # of those encoded, in every update
        self.max_logp_difference = max_logp_difference  # in the mean, between sampling and training; null: any
        self.policy, self.settings, self.reference = policy, settings, reference
        self.loss = chosen_loss(settings)
        policy.find_out()  # before its attention is switched
        self.temperature, self.max_completion_length = temperature, max_completion_length
        self.identity = policy.identity
        self.old_logprobs: dict[str, Tensor] = {}
        self.tally = Tally()
        self.count = 0

    def remember(self, groups: Sequence[Sequence[Pair]], progress: Progress = silent) -> None:
        """Note the policy's own log-probabilities before the first update, for updates that need them."""
        meter = Meter(progress, sum(map(len, groups)), "rollouts read")
        with torch.no_grad(), fused(self.policy.fusible):  # rounded as the updates are
            for pairs in self._parts(groups):
                found = token_logprobs(self.policy, self._batch(pairs), self.temperature, with_entropy=False).logprobs
                for (rollout, _), row in zip(pairs, found, strict=True):
                    self.old_logprobs[rollout.rollout_id] = row
                meter.add(len(pairs))

    def must_remember(self, groups: Sequence[Sequence[Pair]], updates: int) -> bool:
        """Whether a pass before the first update is needed.

        At a first update of fresh rollouts the log-probabilities of that very pass are the old ones. Otherwise those
        recorded when the tokens were sampled will do, unless an engine is to be corrected for, or the weights are
        half precision: there the rounding of another batch alone leaves the bounds of a sequence's ratio.
        """
        late = updates > 1 or not all(self._is_fresh(rollout) for group in groups for rollout, _ in group)
        half = next(iter(self.policy.model.parameters())).dtype in (torch.float16, torch.bfloat16)
        corrected = self.settings.importance_sampling_correction is not None
        return (late and corrected) or (updates > 1 and half)

    def step(
        self, groups: Sequence[Sequence[Pair]], *, silent_rollouts: float = 0.0, silent_tokens: float = 0.0
    ) -> None:
        """One optimizer step over these groups. Raises TrainingStopped before a bad number reaches the weights.

        The loss is a mean over so many `silent_rollouts` and `silent_tokens` more, which add nothing to its sum.
        """
        policy, settings = self.policy, self.settings
        assert policy.optimizer is not None, "prepare_optimizer first"
        policy.model.eval()  # dropout would make the ratio differ from 1 before anything was learnt
        policy.optimizer.zero_grad()  # a round that was stopped leaves gradients behind
        pairs = [pair for group in groups for pair in group]
        whole = Whole(
            num_items=silent_tokens + sum(int(rollout.loss_mask.sum()) for rollout, _ in pairs),
            num_rollouts=silent_rollouts + len(pairs),
            max_completion_length=self.max_completion_length,
        )
        with policy.optimizer.accumulating():
            loss = sum(self._backward(part, whole) for part in self._parts(groups))
        self._check_sampling(pairs)
        norm = policy.optimizer.clip(settings.max_grad_norm)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise TrainingStopped(f"loss {loss:g}, gradient norm {norm:g} in update {self.count + 1}")
        rate = learning_rate(settings, policy.metadata.update)
        policy.optimizer.step(rate)
        policy.note_change(update=policy.metadata.update + 1)
        self.count += 1
        self.tally.note_update(policy_loss=loss, grad_norm=norm, learning_rate=rate)
        self._check_change(groups)

    def metrics(self) -> dict[str, float]:
        """Means over tokens or updates of this round, under the names of the documentation."""
        return self.tally.metrics(with_kl=bool(self.settings.beta))

    def _parts(self, groups: Sequence[Sequence[Pair]]) -> list[list[Pair]]:
        budget = self._budget(groups)
        if self.policy.shares_prompts:
            return list(split_groups(groups, budget))
        return list(split_by_tokens([pair for group in groups for pair in group], budget))

    def _budget(self, groups: Sequence[Sequence[Pair]]) -> int:
        """Tokens of a part; unless it is set, on a CPU a group that a GPU would take whole is not cut either."""
        if self.settings.per_step_token_budget is not None:
            return self.settings.per_step_token_budget
        if self.policy.device.type != "cpu":
            return _GPU_TOKENS
        return min(max(_CPU_TOKENS, *map(packed_tokens, groups), 0), _GPU_TOKENS)

    def _batch(self, pairs: Sequence[Pair], reader: Policy | None = None) -> Batch:
        reader = reader or self.policy
        return (pack_groups if reader.shares_prompts else pad_rows)(pairs, reader.device)

    def _backward(self, pairs: Sequence[Pair], whole: Whole) -> float:
        """Add this part's gradients; the parts of a batch add up to the loss of the batch."""
        settings, batch = self.settings, self._batch(pairs)
        packed: AbstractContextManager[Any] = attending(self.policy.model) if batch.attention else nullcontext()
        again = gradient_checkpointing(self.policy.model, settings.gradient_checkpointing)
        with packed, again, fused(self.policy.fusible):
            found = token_logprobs(self.policy, batch, self.temperature)
            own = found.logprobs.detach()
            part = Part(
                found.logprobs,
                self._old(pairs, batch, own),
                batch.advantages,
                batch.mask,
                ref_logprobs=self._reference_logprobs(pairs, batch) if settings.beta else None,
                sampling_logprobs=batch.logprobs,
            )
            report = policy_loss(part, whole, self.loss, settings)
            report.loss.backward()
        assert found.entropy is not None
        self.tally.note_part(report, found.entropy)
        if self.count == 0:  # later updates have moved away from the sampling policy on purpose
            self.tally.note_sampling(own, batch, report.importance_sampling_ratio)
        self.meter.add(len(pairs), tokens=sum(int(rollout.loss_mask.sum()) for rollout, _ in pairs))
        return float(report.loss.detach())

    def _old(self, pairs: Sequence[Pair], batch: Batch, own: Tensor) -> Tensor:
        """Log-probabilities [rollouts, tokens] of the policy before the first update.

        Fresh rollouts at the first update: those of this very pass, so that every ratio is exactly 1 and no second
        pass is needed. Otherwise those noted before the first update, else those of the sampling.
        """
        if self.count == 0 and all(self._is_fresh(rollout) for rollout, _ in pairs):
            return own
        if not self.old_logprobs:
            return batch.logprobs
        old = torch.zeros_like(own)
        for row, (rollout, _) in zip(old, pairs, strict=True):
            known = self.old_logprobs[rollout.rollout_id][: len(row)]
            row[: len(known)] = known
        return old

    def _is_fresh(self, rollout: Rollout) -> bool:
        return rollout.policy == self.identity

    def _reference_logprobs(self, pairs: Sequence[Pair], batch: Batch) -> Tensor:
        reader = self.reference or self.policy
        switched_off = nullcontext() if self.reference else self.policy.model.disable_adapter()
        if reader.shares_prompts != self.policy.shares_prompts:
            batch = self._batch(pairs, reader)
        # Fused as the policy is: other rounding would be a gradient where policy and reference are equal.
        with torch.no_grad(), switched_off, fused(reader.fusible):
            return token_logprobs(reader, batch, self.temperature, with_entropy=False).logprobs

    def _check_sampling(self, pairs: Sequence[Pair]) -> None:
        """The engine said other log-probabilities than rounding explains: it had other weights than the policy's."""
        limit, found = self.max_logp_difference, self.tally.mean_difference
        if self.count or limit is None or found is None or not all(self._is_fresh(rollout) for rollout, _ in pairs):
            return
        if not found <= limit:
            raise TrainingStopped(
                f"the engine's log-probabilities of the sampled tokens differ by {found:.3g} from the trainer's in the "
                f"mean, more than the {limit:.3g} that rounding explains: it did not sample with the policy's weights"
            )

    def _check_change(self, groups: Sequence[Sequence[Pair]]) -> None:
        """Measure how far the update moved the policy from the one that sampled; on a few rollouts unless it is far.

        Few tokens are off by several times, either way: a single rare one that became likely weighs as much as a
        policy that fell apart, and all of them may be tokens that stayed. So all are looked at in good time.
        """
        kl = self._distance(_some(groups, _CHECKED_SHARE))
        if kl is None:  # no token of these groups was sampled
            return
        if not kl <= _SUSPECT * self.settings.max_kl:  # also true for NaN
            kl = self._distance(_some(groups, 1.0))
            assert kl is not None
        self.tally.note_update(kl_update=kl)
        if not kl <= self.settings.max_kl:
            raise TrainingStopped(
                f"KL {kl:g} to the sampling policy after update {self.count} exceeds training.max_kl "
                f"{self.settings.max_kl:g}; lower training.learning_rate, or let it rise over training.warmup_updates"
            )

    def _distance(self, group: list[Pair]) -> float | None:
        """KL of the policy to the one that sampled, per sampled token (k3 estimate)."""
        distances = []
        with torch.no_grad():
            for pairs in self._parts([group] if group else []):
                batch = self._batch(pairs)
                logprobs = token_logprobs(self.policy, batch, self.temperature, with_entropy=False).logprobs
                distances.append((logprobs - batch.logprobs)[batch.mask])
        if not distances:
            return None
        distance = torch.cat(distances)
        return (distance.exp() - 1 - distance).mean().item()


def _some(groups: Sequence[Sequence[Pair]], share: float) -> list[Pair]:
    """Whole groups, good and bad rollouts alike, that hold at least this share of the sampled tokens."""
    groups = [[pair for pair in group if pair[0].loss_mask.any()] for group in groups]
    wanted = share * sum(int(rollout.loss_mask.sum()) for group in groups for rollout, _ in group)
    chosen: list[Pair] = []
    for group in groups:
        if wanted <= 0:
            break
        chosen += group
        wanted -= sum(int(rollout.loss_mask.sum()) for rollout, _ in group)
    return chosen
