"""The log-probabilities of a round's rollouts under the policy before its first update, which ratios are taken to."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rlft.policy.fused import fused
from rlft.progress import Meter, Progress, silent
from rlft.training.batching import Batch, Pair
from rlft.training.parts import make_batch
from rlft.training.reading import Reading, shortest
from rlft.types import Rollout


class OldLogprobs:
    """Notes them where they are needed again, and says which ones a part of an update has.

    `lagged` says that the policy of an earlier round has sampled the rollouts, and `corrected` that a correction weighs
    them by what did. With either the ratio of the loss is that of the policy to itself before the round (decoupled,
    arXiv:2110.00641). Made before the first update.
    """

    def __init__(self, reading: Reading, *, corrected: bool, lagged: bool) -> None:
        self.reading, self.lagged, self.decoupled = reading, lagged, corrected or lagged
        self.identity = (
            reading.policy.identity
        )  # that of the policy before the first update, which fresh rollouts carry
        self.noted: dict[str, Tensor] = {}  # by rollout id, [tokens]; empty unless `remember` was called, or lagged

    def must_remember(self, groups: Sequence[Sequence[Pair]], updates: int) -> bool:
        """Return whether `remember` is needed before the first update.

        At a first update of fresh rollouts, those that this policy sampled, the log-probabilities of that same pass are
        the old ones, and so they are with a lag or a correction. Otherwise those recorded when the tokens were sampled
        are used, unless there is a lag or a correction, or fresh rollouts are trained on in half precision: there
        rounding in a batch of another shape is enough to move the ratio of a sequence out of its bounds (docs/LOG.md,
        "rounding and clipping in bfloat16").
        """
        half = next(iter(self.reading.policy.model.parameters())).dtype in (torch.float16, torch.bfloat16)
        return updates > 1 and (self.decoupled or (half and self.are_fresh(groups)))

    def remember(
        self,
        groups: Sequence[Sequence[Pair]],
        updates: Sequence[Sequence[Sequence[Pair]]],
        progress: Progress = silent,
    ) -> None:
        """Note the policy's log-probabilities before the first of the `updates`, if they need them (`must_remember`).

        `groups` are those of the round, dealt out to the updates. A trainer reads what it is to encode in one of these.
        """
        reading = self.reading
        own = {rollout.rollout_id for update in updates for group in reading.share(update) for rollout, _ in group}
        mine = ([pair for pair in group if pair[0].rollout_id in own] for group in groups)
        groups, everything = [group for group in mine if group], groups
        meter = Meter(progress, sum(map(len, everything)), "rollouts read")
        # The same operations as in the updates round the same way.
        with torch.no_grad(), fused(reading.policy.fusible):
            for part in reading.world.level(reading.parts(groups)):
                pairs = part or shortest(everything)
                self._note(pairs, reading.logprobs(make_batch(reading.policy, pairs)))
                meter.add(len(pairs))

    def of(self, pairs: Sequence[Pair], batch: Batch, own: Tensor, *, first: bool) -> Tensor:
        """Return log-probabilities [rollouts, tokens] of the policy before the first update.

        At the `first` update these are the part's `own`, so that every ratio is exactly 1 and no second pass is needed:
        for fresh rollouts, and for others with a lag or a correction. Otherwise they are those that were noted, or else
        those recorded at sampling: then the ratio is all that tells other rollouts from the policy's own.
        """
        if first and (self.decoupled or self.are_fresh([pairs])):
            if self.lagged:
                self._note(pairs, own)
            return own
        return self.known(pairs, own) if self.noted else batch.logprobs

    def known(self, pairs: Sequence[Pair], like: Tensor) -> Tensor:
        """Return what was noted of these rollouts, [rollouts, tokens], in the shape of `like`."""
        old = torch.zeros_like(like)
        for row, (rollout, _) in zip(old, pairs, strict=True):
            # The width of a part is that of its longest completion, so it may differ from that in `remember`.
            noted = self.noted[rollout.rollout_id][: len(row)]
            row[: len(noted)] = noted
        return old

    def are_fresh(self, groups: Sequence[Sequence[Pair]]) -> bool:
        """Return whether the policy before the first update has sampled all of the rollouts."""
        return all(self._is_fresh(rollout) for group in groups for rollout, _ in group)

    def _is_fresh(self, rollout: Rollout) -> bool:
        return rollout.policy == self.identity

    def _note(self, pairs: Sequence[Pair], logprobs: Tensor) -> None:
        for (rollout, _), row in zip(pairs, logprobs, strict=True):
            self.noted.setdefault(rollout.rollout_id, row)
