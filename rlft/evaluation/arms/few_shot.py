"""The few-shot control: the base model with solved tasks in its prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rlft.evaluation.arms.base import PromptArm

if TYPE_CHECKING:
    from rlft.config import Config


class FewShot(PromptArm):
    """Is the base model with some answers in its prompt."""

    name: ClassVar[str] = "few_shot"
    label: ClassVar[str] = "base model with examples in its prompt"
    paper: ClassVar[str] = "arXiv:2005.14165"

    def why_not(self, config: Config, *, has_answers: bool) -> str:
        """Return why no examples can be shown; empty if they can."""
        known = super().why_not(config, has_answers=has_answers)
        return known or ("" if has_answers else "no train task has a gold answer to show")

    def validations(self) -> tuple[int, int]:
        """Return those of no examples, and of 2, 4 and 8 in two forms; the first of them by others' answers, too."""
        return 1, 8
