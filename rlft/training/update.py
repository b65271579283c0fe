"""Takes the optimizer steps of one round, and stops when their numbers show that the policy is being destroyed."""

from __future__ import annotations

import math
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
from rlft.progress import Meter, Progress, silent
from rlft.training.batching import Batch, Pair
from rlft.training.checkpointing import gradient_checkpointing
from rlft.training.chosen_loss import chosen_loss
from rlft.training.kl import k3
from rlft.training.logprobs import token_logprobs
from rlft.training.loss import Part, Whole, policy_loss
from rlft.training.optimizer import learning_rate
from rlft.training.parts import make_batch, split_parts
from rlft.training.tally import Tally
from rlft.training.world import ALONE, World
from rlft.types import Rollout

# After each update the KL is estimated on this share of its tokens, which is cheap and enough to see that nothing has
# happened.
_CHECKED_SHARE = 1 / 16
# So few tokens may show a fraction of the true KL: from this share of `max_kl` on all tokens are measured (docs/LOG.md,
# "which KL tells an update that teaches from one that destroys").
_SUSPECT = 1 / 4
_LOWER_RATE = "lower training.learning_rate, or let it rise over training.warmup_updates"
_TOO_FAR = "another policy sampled these rollouts, which is too far away by now to learn from them"


class TrainingStopped(Exception):
    """Raised when numbers went out of bounds: the policy in memory must be replaced by the stored one."""


class Updater:
    """Takes the optimizer steps of one round, and tallies what its metrics are made of.

    `max_logp_difference` bounds the mean difference of log-probabilities between sampling and training, in nats; `None`
    means no bound. Of `lagged` rollouts, which the policy of an earlier round has sampled, the change by an update is
    measured from the policy before this round; they need a correction for what sampled. `meter` counts the rollouts
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
        self.world, self.lagged = world, lagged
        self.meter = meter or Meter(silent, None, "rollouts")
        self.max_logp_difference = max_logp_difference
        self.policy, self.settings, self.reference = policy, settings, reference
        self.loss = chosen_loss(settings)
        policy.find_out()  # it runs the model with its own attention, so before `attending` replaces that
        world.check_alike(policy)
        self.temperature, self.max_completion_length = temperature, max_completion_length
        self.identity = policy.identity  # that of the policy before the first update, which fresh rollouts carry
        self.old_logprobs: dict[str, Tensor] = {}  # by rollout id, [tokens]; empty unless `remember` was called
        self.tally = Tally(settings.importance_sampling_correction, settings.importance_sampling_max)
        self.count = 0

    def remember(
        self,
        groups: Sequence[Sequence[Pair]],
        updates: Sequence[Sequence[Sequence[Pair]]],
        progress: Progress = silent,
    ) -> None:
        """Note the policy's log-probabilities before the first of the `updates`, if they need them (`must_remember`).

        `groups` are those of the round, dealt out to the updates. A trainer reads what it is to encode in one of these.
        """
        own = {rollout.rollout_id for update in updates for group in self._share(update) for rollout, _ in group}
        mine = ([pair for pair in group if pair[0].rollout_id in own] for group in groups)
        groups, everything = [group for group in mine if group], groups
        meter = Meter(progress, sum(map(len, everything)), "rollouts read")
        with torch.no_grad(), fused(self.policy.fusible):  # the same operations as in the updates round the same way
            for part in self.world.level(self._parts(groups)):
                pairs = part or _shortest(everything)
                found = token_logprobs(
                    self.policy, make_batch(self.policy, pairs), self.temperature, with_entropy=False
                ).logprobs
                for (rollout, _), row in zip(pairs, found, strict=True):
                    self.old_logprobs[rollout.rollout_id] = row
                meter.add(len(pairs))

    def must_remember(self, groups: Sequence[Sequence[Pair]], updates: int) -> bool:
        """Return whether `remember` is needed before the first update.

        At a first update of fresh rollouts, those that this policy sampled, the log-probabilities of that same pass are
        the old ones, and so they are with a correction. Otherwise those recorded when the tokens were sampled are used,
        unless what sampled is corrected for, or fresh rollouts are trained on in half precision: there rounding in a
        batch of another shape is enough to move the ratio of a sequence out of its bounds (docs/LOG.md, "rounding and
        clipping in bfloat16").
        """
        fresh = all(self._is_fresh(rollout) for group in groups for rollout, _ in group)
        half = next(iter(self.policy.model.parameters())).dtype in (torch.float16, torch.bfloat16)
        corrected = self.settings.importance_sampling_correction is not None
        # Without a correction the loss's ratio is all that tells other rollouts from the policy's own.
        return updates > 1 and (corrected or (fresh and half))

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
            parts = self.world.level(self._parts(self._share(groups)))
            passes = of_one_update(policy.sharded, parts)
            losses = [self._backward(part, whole) if part else self._pass_idly(groups) for part in passes]
        (loss,) = self.world.total([sum(losses)])
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
        """Return means over tokens or updates of this round, by the names in docs/guide/training.md."""
        return self.tally.together(self.world).metrics(with_kl=bool(self.settings.beta))

    def _share(self, groups: Sequence[Sequence[Pair]]) -> list[list[Pair]]:
        return self.world.share(groups, shares_prompts=self.policy.shares_prompts)

    def _parts(self, groups: Sequence[Sequence[Pair]]) -> list[list[Pair]]:
        return split_parts(self.policy, groups, self.settings.per_step_token_budget)

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
                self._old(pairs, batch, own),
                batch.advantages,
                batch.mask,
                ref_logprobs=reference,
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

    def _pass_idly(self, groups: Sequence[Sequence[Pair]]) -> float:
        """Take part in a pass of the other trainers, without adding to any gradient; return the loss of that, 0."""
        pairs = _shortest(groups)
        batch = make_batch(self.policy, pairs)
        if self.settings.beta:
            self._reference_logprobs(pairs, batch)
        with self._differentiating(batch):
            (0.0 * token_logprobs(self.policy, batch, self.temperature, with_entropy=False).logprobs.sum()).backward()
        return 0.0

    @contextmanager
    def _differentiating(self, batch: Batch) -> Iterator[None]:
        """Have the model read `batch` as training does: forwards and backwards inside the context."""
        packed: AbstractContextManager[Any] = attending(self.policy.model) if batch.attention else nullcontext()
        again = gradient_checkpointing(self.policy.model, self.settings.gradient_checkpointing)
        with packed, again, fused(self.policy.fusible):
            yield

    def _old(self, pairs: Sequence[Pair], batch: Batch, own: Tensor) -> Tensor:
        """Return log-probabilities [rollouts, tokens] of the policy before the first update.

        At the first update these are the part's `own`, so that every ratio is exactly 1 and no second pass is needed:
        for fresh rollouts, and for those of another policy that a correction weighs. Otherwise they are those that
        `remember` noted, or else those recorded at sampling.
        """
        corrected = self.settings.importance_sampling_correction is not None
        if self.count == 0 and (corrected or all(self._is_fresh(rollout) for rollout, _ in pairs)):
            if self.lagged:
                noted = ((rollout.rollout_id, row) for (rollout, _), row in zip(pairs, own, strict=True))
                self.old_logprobs = dict(noted) | self.old_logprobs
            return own
        return self._noted(pairs, own) if self.old_logprobs else batch.logprobs

    def _noted(self, pairs: Sequence[Pair], own: Tensor) -> Tensor:
        """Return log-probabilities [rollouts, tokens] of the policy before the first update, in the shape of `own`."""
        old = torch.zeros_like(own)
        for row, (rollout, _) in zip(old, pairs, strict=True):
            # The width of a part is that of its longest completion, so it may differ from that in `remember`.
            known = self.old_logprobs[rollout.rollout_id][: len(row)]
            row[: len(known)] = known
        return old

    def _is_fresh(self, rollout: Rollout) -> bool:
        return rollout.policy == self.identity

    def _reference_logprobs(self, pairs: Sequence[Pair], batch: Batch) -> Tensor:
        reader = self.reference or self.policy
        switched_off = nullcontext() if self.reference else self.policy.model.disable_adapter()
        if reader.shares_prompts != self.policy.shares_prompts:
            batch = make_batch(reader, pairs)
        # Fused as the policy is: rounding of one of them alone would be a gradient where the two are equal.
        with torch.no_grad(), switched_off, fused(reader.fusible):
            return token_logprobs(reader, batch, self.temperature, with_entropy=False).logprobs

    def _check_sampling(self, pairs: Sequence[Pair]) -> None:
        """Raise TrainingStopped if the engine's log-probabilities differ from the trainer's by more than rounding does.

        Then the engine sampled with other weights. It can be seen at the first update of fresh rollouts only.
        """
        limit = self.max_logp_difference
        if self.count or limit is None or not all(self._is_fresh(rollout) for rollout, _ in pairs):
            return
        found = self.tally.together(self.world).mean_difference
        if found is not None and not found <= limit:
            raise TrainingStopped(
                f"the engine's log-probabilities of the sampled tokens differ by {found:.3g} from the trainer's in the "
                f"mean, more than the {limit:.3g} that rounding explains: it did not sample with the policy's weights"
            )

    def _check_change(self, groups: Sequence[Sequence[Pair]]) -> None:
        """Raise TrainingStopped if the update moved the policy too far from the one that sampled.

        The KL is measured on a few rollouts first. That estimate can be several times too large or too small: a single
        rare token that became likely weighs as much as a policy that fell apart, and the tokens looked at may be those
        that did not change. So if it is suspicious, all tokens are measured.
        """
        kl = self._distance(_some(groups, _CHECKED_SHARE))
        if kl is None:  # no token of these groups was sampled
            return
        if not kl <= _SUSPECT * self.settings.max_kl:  # also true for NaN
            kl = self._distance(_some(groups, 1.0))
            assert kl is not None
        self.tally.note_update(kl_update=kl)
        if not kl <= self.settings.max_kl:
            own = self.lagged or all(self._is_fresh(rollout) for group in groups for rollout, _ in group)
            before = "policy before the round" if self.lagged else "sampling policy"
            raise TrainingStopped(
                f"KL {kl:g} to the {before} after update {self.count} exceeds training.max_kl "
                f"{self.settings.max_kl:g}; " + (_LOWER_RATE if own else _TOO_FAR)
            )

    def _distance(self, groups: list[list[Pair]]) -> float | None:
        """Return KL(sampling policy || this policy) in nats per sampled token, by the k3 estimate.

        Of lagged rollouts it is that from the policy before the round, whose tokens they are not: each weighs how much
        likelier that policy was to sample it. One that it had all but given up would count as often as it was sampled.
        """
        own, found, tokens = [pair for group in self._share(groups) for pair in group], 0.0, 0.0
        with torch.no_grad():
            for part in self.world.level(self._parts([own] if own else [])):
                batch = make_batch(self.policy, part or _shortest(groups))
                logprobs = token_logprobs(self.policy, batch, self.temperature, with_entropy=False).logprobs
                before = self._noted(part or _shortest(groups), logprobs) if self.lagged else batch.logprobs
                self.meter.add(0)  # whoever watches over trainers sees that this one gets on
                if part:
                    weights = (before - batch.logprobs).double().exp().where(batch.mask, 0.0)  # 1 without a lag
                    found += k3(before.double(), logprobs.double(), batch.mask, weights).sum().item()
                    tokens += weights.sum().item()
        found, tokens = self.world.total([found, tokens])
        return found / tokens if tokens else None


def _shortest(groups: Sequence[Sequence[Pair]]) -> list[Pair]:
    """Return the shortest of all rollouts, which is the cheapest to read for nothing."""
    return [min((pair for group in groups for pair in group), key=lambda pair: len(pair[0].token_ids))]


def _some(groups: Sequence[Sequence[Pair]], share: float) -> list[list[Pair]]:
    """Return the first groups that hold at least this share of the sampled tokens.

    Groups are taken whole, so that good and bad rollouts are among them alike.
    """
    sampled = ([pair for pair in group if pair[0].loss_mask.any()] for group in groups)
    groups = [group for group in sampled if group]
    wanted = share * sum(int(rollout.loss_mask.sum()) for group in groups for rollout, _ in group)
    chosen: list[list[Pair]] = []
    for group in groups:
        if wanted <= 0:
            break
        chosen.append(list(group))
        wanted -= sum(int(rollout.loss_mask.sum()) for rollout, _ in group)
    return chosen
