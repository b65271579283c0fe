"""The SFT control: supervised fine-tuning on all answers that GRPO's reward may use, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rlft.evaluation.arms.base import PolicyArm

if TYPE_CHECKING:
    from rlft.config import Config
    from rlft.evaluation.searches.validator import ControlReport, Terms, Validator
    from rlft.models import Policy
    from rlft.progress import Progress


class Sft(PolicyArm):
    """Imitates an answer to every train task that has one."""

    name: ClassVar[str] = "sft"
    label: ClassVar[str] = "SFT on your gold answers"
    paper: ClassVar[str] = "arXiv:2109.01652"

    def why_not(self, config: Config, *, has_answers: bool) -> str:
        """Return that there is nothing to imitate; empty if there is."""
        del config
        return "" if has_answers else "no train task has a gold answer"

    def train(self, policy: Policy, validator: Validator, terms: Terms, progress: Progress) -> ControlReport:
        """Search answers, learning rate and length of the training."""
        from rlft.evaluation.searches.sft import run_sft_control

        return run_sft_control(policy, validator, terms, progress)
