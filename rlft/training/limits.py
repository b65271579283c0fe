"""When a round is given up: its numbers show that the policy is being destroyed, or that another one has sampled."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from rlft.progress import Meter
from rlft.training.batching import Pair
from rlft.training.logprobs import OldLogprobs, Reading, make_batch, shortest
from rlft.training.loss import k3

# After each update the KL is estimated on this share of its tokens, which is cheap and enough to see that nothing has
# happened.
_CHECKED_SHARE = 1 / 16
# So few tokens may show a twentieth of the true KL (0.031 of 0.642): from so many nats on, or a tenth of
# `max_kl` where that is less, all tokens are measured (docs/LOG.md, "the default of `max_kl` ended runs that learn").
_SUSPECT = 0.02
_LOWER_RATE = "lower training.learning_rate, or let it rise over training.warmup_updates"
_TOO_FAR = "another policy sampled these rollouts, which is too far away by now to learn from them"


class TrainingStopped(Exception):
    """Raised when numbers went out of bounds: the policy in memory must be replaced by the stored one."""


class Limits:
    """What the numbers of a round's updates must keep to.

    `max_kl` bounds how far an update may move the policy, in nats per sampled token; `max_logp_difference` the mean
    difference of log-probabilities between sampling and training, in nats, and `None` means no bound. `meter` hears of
    every part that is read.
    """

    def __init__(
        self, reading: Reading, old: OldLogprobs, *, max_kl: float, max_logp_difference: float | None, meter: Meter
    ) -> None:
        self.reading, self.old, self.meter = reading, old, meter
        self.max_kl, self.max_logp_difference = max_kl, max_logp_difference

    def check_sampling(self, pairs: Sequence[Pair], found: float | None) -> None:
        """Raise TrainingStopped if the engine's log-probabilities differ from the trainer's by more than rounding does.

        `found` is their mean difference at the first update, the only one where it tells of sampling; `None` if no
        token was sampled. Then the engine sampled with other weights, unless another policy is known to have sampled.
        """
        limit = self.max_logp_difference
        if limit is None or found is None or not self.old.are_fresh([pairs]):
            return
        if not found <= limit:
            raise TrainingStopped(
                f"the engine's log-probabilities of the sampled tokens differ by {found:.3g} from the trainer's in the "
                f"mean, more than the {limit:.3g} that rounding explains: it did not sample with the policy's weights"
            )

    def check_step(self, loss: float, norm: float, update: int) -> None:
        """Raise TrainingStopped if the loss of an update, or the norm of its gradient, is not finite."""
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise TrainingStopped(f"loss {loss:g}, gradient norm {norm:g} in update {update}")

    def change(self, groups: Sequence[Sequence[Pair]]) -> float | None:
        """Return how far the policy has moved from the one before, in nats per sampled token; `None` without tokens.

        The KL is measured on a few rollouts first. That estimate can be several times too large or too small: a single
        rare token that became likely weighs as much as a policy that fell apart, and the tokens looked at may be those
        that did not change. So if it is suspicious, all tokens are measured.
        """
        kl = self._distance(groups, _CHECKED_SHARE)
        if kl is None or kl <= min(_SUSPECT, self.max_kl / 10):  # which NaN is not
            return kl
        return self._distance(groups, 1.0)

    def check_change(self, kl: float, groups: Sequence[Sequence[Pair]], update: int) -> None:
        """Raise TrainingStopped if that is further than `max_kl` after this update."""
        if kl <= self.max_kl:
            return
        lagged = self.old.lagged
        own = lagged or self.old.are_fresh(groups)
        before = "policy before the round" if lagged else "sampling policy"
        raise TrainingStopped(
            f"KL {kl:g} to the {before} after update {update} exceeds training.max_kl {self.max_kl:g}; "
            + (_LOWER_RATE if own else _TOO_FAR)
        )

    def _distance(self, update: Sequence[Sequence[Pair]], share: float) -> float | None:
        """Return KL(sampling policy || this policy) in nats per sampled token, by the k3 estimate.

        It is that of the first groups of an update which hold this share of its tokens. Of lagged rollouts it is that
        from the policy before the round, whose tokens they are not: each weighs how much likelier that policy was to
        sample it, and 1 at most. Without weights a token that it had all but given up would count as often as it was
        sampled. Above 1 they would multiply what is large already: a token that was rare when it was sampled, and that
        this round has taught, could be the whole KL (as the clipped weights of V-trace, arXiv:1802.01561, this trades a
        little bias for that).
        """
        reading, found, tokens = self.reading, 0.0, 0.0
        groups = _some(update, share)
        own = [pair for group in self._own(groups, update) for pair in group]
        with torch.no_grad():
            for part in reading.world.level(reading.parts([own] if own else [])):
                pairs = part or shortest(groups)
                batch = make_batch(reading.policy, pairs)
                logprobs = reading.logprobs(batch)
                self.meter.add(0)  # whoever watches over trainers sees that this one gets on
                if part:
                    before = self.old.known(pairs, logprobs) if self.old.lagged else batch.logprobs
                    likelier = (before - batch.logprobs).double()  # 0 without a lag
                    weights = likelier.clamp(max=0.0).exp().where(batch.mask, 0.0)
                    found += k3(before.double(), logprobs.double(), batch.mask, weights).sum().item()
                    tokens += weights.sum().item()
        found, tokens = reading.world.total([found, tokens])
        return found / tokens if tokens else None

    def _own(self, groups: list[list[Pair]], update: Sequence[Sequence[Pair]]) -> list[list[Pair]]:
        """Return those of some groups of an update that this trainer reads.

        Of lagged rollouts a trainer has noted the log-probabilities of those alone that it encodes in the update.
        """
        if not self.old.lagged:
            return self.reading.share(groups)
        encoded = {rollout.rollout_id for group in self.reading.share(update) for rollout, _ in group}
        return [[pair for pair in group if pair[0].rollout_id in encoded] for group in groups]


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
