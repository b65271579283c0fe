"""The control by rejection sampling, or expert iteration: it needs a check of answers and no gold."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rlft.evaluation.arms.base import PolicyArm

if TYPE_CHECKING:
    from rlft.evaluation.searches.validator import ControlReport, Terms, Validator
    from rlft.models import Policy
    from rlft.progress import Progress


class RejectionSampling(PolicyArm):
    """Imitates, in as many rounds as training had, the best of its own attempts."""

    name: ClassVar[str] = "rejection_sampling"
    label: ClassVar[str] = "Rejection sampling"
    paper: ClassVar[str] = "arXiv:2312.06585"

    def train(self, policy: Policy, validator: Validator, terms: Terms, progress: Progress) -> ControlReport:
        """Sample and imitate round after round, in two forms."""
        del progress
        from rlft.evaluation.searches.rejection import run_rejection_control

        return run_rejection_control(policy, validator, terms)
