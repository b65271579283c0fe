"""Adds up a round's training metrics while the parts of its updates are encoded, and says when the round is given up.

It is given up when its numbers show that the policy is being destroyed, or that another one has sampled.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rlft.config.training import Correction
from rlft.models.flops import ENCODED, OF_SEQUENCES
from rlft.progress import Meter
from rlft.training.batching import Batch, Pair, World
from rlft.training.logprobs import OldLogprobs, Reading, make_batch, shortest
from rlft.training.loss import LossReport, effective_share, k3, mean_weight

LOGP_DIFFERENCE = "sampling/sampling_logp_difference"
RATIO = "sampling/importance_sampling_ratio"
EFFECTIVE = "sampling/effective_sample_ratio"
MEAN_WEIGHT = "sampling/mean_weight"
CAPPED = "sampling/capped_ratio"


_SUMS = (
    "tokens",
    "ratios",
    "clipped_low",
    "clipped_high",
    "kl",
    "entropy",
    "differences",
    "compared",
    "engine_ratio",
    "engine_ratios",
    "capped",
    "weighed",
    "encoded",
    "of_sequences",
    "units",
)


class Tally:
    """Holds sums over tokens and lists over updates; `metrics` makes means of them.

    `correction` and `maximum` say what the weights of attempts, or of tokens, are cut off by (`engine_correction`),
    `reported` what the algorithm reports beside its loss.
    """

    def __init__(
        self,
        correction: Correction | None = None,
        maximum: float | None = None,
        reported: tuple[str, ...] = (),
    ) -> None:
        self.reported = reported
        self.by_token = correction is not None and correction.startswith("token")
        self.log_maximum = math.log(maximum) if correction is not None and maximum is not None else None
        self.sums: dict[str, float] = defaultdict(float)
        self.per_update: dict[str, list[float]] = defaultdict(list)
        self.ratio_bounds: tuple[float, float] | None = None
        self.largest_difference = 0.0
        self.log_weights: list[float] = []  # of rollouts: trainer to what sampled, before truncation or masking

    def note_read(self, batch: Batch) -> None:
        """Count the tokens of one part of an update, as they are encoded and as its sequences have them one by one."""
        self.sums["encoded"] += batch.token_ids.numel()
        self.sums["of_sequences"] += batch.tokens_of_sequences

    def note_part(self, report: LossReport, entropy: Tensor) -> None:
        """Add the sums of one part of an update; `entropy` is [rollouts, tokens] in nats, 0 outside the mask."""
        self.sums["tokens"] += report.tokens
        self.sums["ratios"] += report.ratios
        self.sums["clipped_low"] += report.clipped_low
        self.sums["clipped_high"] += report.clipped_high
        self.sums["kl"] += report.kl
        self.sums["entropy"] += entropy.sum().item()
        self.sums["units"] += report.units
        for name, value in report.sums.items():
            self.sums[name] += value

    def note_sampling(self, logprobs: Tensor, batch: Batch, ratio: Tensor | None) -> None:
        """Compare the trainer's log-probabilities [rollouts, tokens] before any update with the engine's.

        `ratio` holds the importance ratios that the loss used; `None` where it used none.
        """
        apart = (logprobs - batch.logprobs).where(batch.mask, 0.0)
        difference = apart[batch.mask]
        if ratio is None:
            ratio = difference.exp()
        if not len(difference) or not len(ratio):
            return
        low, high = (bound.item() for bound in ratio.aminmax())
        before = self.ratio_bounds or (low, high)
        self.ratio_bounds = (min(before[0], low), max(before[1], high))
        # Unlike `max`, np.maximum keeps a NaN.
        self.largest_difference = float(np.maximum(self.largest_difference, difference.abs().max().item()))
        self.sums["differences"] += difference.abs().sum().item()
        self.sums["compared"] += len(difference)
        self.sums["engine_ratio"] += ratio.sum().item()
        self.sums["engine_ratios"] += len(ratio)
        whole = apart.double().sum(-1)[batch.mask.any(-1)]
        self.log_weights += whole.tolist()
        if self.log_maximum is not None:
            weighed = difference if self.by_token else whole
            self.sums["capped"] += int((weighed > self.log_maximum).sum())
            self.sums["weighed"] += len(weighed)

    def note_update(self, **values: float) -> None:
        """Append the numbers of one whole update, by metric name."""
        for name, value in values.items():
            self.per_update[name].append(value)

    def together(self, world: World) -> Tally:
        """Return the tally of all trainers of a `world`, all of which must call this; numbers of updates are theirs."""
        if world.size == 1:
            return self
        low, high = self.ratio_bounds or (math.inf, -math.inf)
        names = (*_SUMS, *self.reported)
        numbers = [low, high, self.largest_difference, *(self.sums[name] for name in names)]
        lows, highs, differences, *sums = zip(*world.gather(numbers), strict=True)
        found = Tally(reported=self.reported)
        found.per_update = self.per_update
        found.sums.update(zip(names, map(sum, sums), strict=True))
        found.largest_difference = float(np.max(differences))  # it keeps a NaN
        if found.sums["compared"]:
            found.ratio_bounds = min(lows), max(highs)
        found.log_weights = [weight for each in world.gather(self.log_weights) for weight in each]
        return found

    @property
    def mean_difference(self) -> float | None:
        """The mean absolute difference of trainer's and engine's log-probabilities in nats; `None` without any yet."""
        return self.sums["differences"] / self.sums["compared"] if self.sums["compared"] else None

    def metrics(self, *, with_kl: bool) -> dict[str, float]:
        """Return means over the tokens, ratios or updates of this round, by the names in docs/guide/training.md."""
        found = {name: sum(values) / len(values) for name, values in self.per_update.items()}
        sums = self.sums
        if sums["encoded"]:
            found |= {ENCODED: sums["encoded"], OF_SEQUENCES: sums["of_sequences"]}
        if tokens := sums["tokens"]:
            found["entropy"] = sums["entropy"] / tokens
            if with_kl:
                found["kl"] = sums["kl"] / tokens
        if units := sums["units"]:
            found |= {name: sums[name] / units for name in self.reported}
        if ratios := sums["ratios"]:
            found["clip_ratio/low_mean"] = sums["clipped_low"] / ratios
            found["clip_ratio/high_mean"] = sums["clipped_high"] / ratios
            found["clip_ratio/region_mean"] = found["clip_ratio/low_mean"] + found["clip_ratio/high_mean"]
        if self.ratio_bounds is not None:
            found[f"{LOGP_DIFFERENCE}/mean"] = sums["differences"] / sums["compared"]
            found[f"{LOGP_DIFFERENCE}/max"] = self.largest_difference
            found[f"{RATIO}/min"], found[f"{RATIO}/max"] = self.ratio_bounds
            found[f"{RATIO}/mean"] = sums["engine_ratio"] / sums["engine_ratios"]
            found[EFFECTIVE], found[MEAN_WEIGHT] = effective_share(self.log_weights), mean_weight(self.log_weights)
        if self.sums["weighed"]:
            found[CAPPED] = self.sums["capped"] / self.sums["weighed"]
        return found


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
