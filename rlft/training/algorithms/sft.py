"""Supervised fine-tuning: the warm start, and a control beside reinforcement learning."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rlft.training.algorithms import Algorithm, Data, PartLoss

if TYPE_CHECKING:
    from rlft.config.training import TrainingConfig
    from rlft.training.loss import LossReport, Part, Whole


class Sft(Algorithm):
    """SFT imitates all that it is shown, by cross-entropy."""

    name: ClassVar[str] = "sft"
    title: ClassVar[str] = "supervised fine-tuning (SFT)"
    paper: ClassVar[str] = "arXiv:2109.01652"
    data: ClassVar[Data] = "demonstrations"

    def loss(self, settings: TrainingConfig) -> PartLoss:
        """Return the mean cross-entropy over the imitated tokens."""
        del settings
        return cross_entropy


def cross_entropy(part: Part, whole: Whole) -> LossReport:
    """Return minus the sum of the log-probabilities of a part's imitated tokens, over the tokens of the update."""
    from rlft.training.loss import LossReport

    return LossReport(-part.logprobs.sum() / max(whole.num_items or 0, 1), tokens=float(part.mask.sum()))
