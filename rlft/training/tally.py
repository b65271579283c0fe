"""Adds up a round's training metrics while the parts of its updates are encoded."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
from torch import Tensor

from rlft.config.training import Correction
from rlft.models.flops import ENCODED, OF_SEQUENCES
from rlft.training.batching import Batch
from rlft.training.loss import LossReport, effective_share, mean_weight
from rlft.training.world import World

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
