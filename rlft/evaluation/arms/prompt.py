"""A better prompt: would written instructions do, without any training?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from rlft.config.section import Text
from rlft.evaluation.arms.base import PromptArm

if TYPE_CHECKING:
    from rlft.evaluation.searches.judge import Judge, Terms
    from rlft.evaluation.searches.prompts import PromptReport
    from rlft.harness.rollout import Player
    from rlft.progress import Progress


class Prompt(PromptArm):
    """Is the base model with the best of your written instructions, alone or several, in its system prompt."""

    name: ClassVar[str] = "prompt"
    label: ClassVar[str] = "base model with better instructions"
    by_default: ClassVar[bool] = False
    example: ClassVar[dict[str, Any]] = {"prompt": ["Think step by step."]}

    prompt: list[Text] = Field(
        min_length=1,
        max_length=50,
        description="Instructions, each of which is tried at the end of the task's own system prompt.",
    )

    def validations(self) -> tuple[int, int]:
        """Return those of no instructions, of each alone, and of the unions of the best."""
        return 1, 2 * len(set(self.prompt))

    def choose(self, player: Player, judge: Judge, terms: Terms, progress: Progress) -> PromptReport:
        """Try no instructions, each alone, and then the best with the next best as long as that does better.

        This is forward selection by validation: of n instructions it tries 1 + n prompts and at most n - 1 unions.
        """
        del progress
        from rlft.evaluation.searches.prompts import PromptSearch
        from rlft.harness.attempt import Examples

        search = PromptSearch(player, judge, terms)
        search.consider(None)
        for text in dict.fromkeys(self.prompt):
            search.consider(Examples(instructions=text))
        alone = [trial for trial in search.trials if trial.instructions and trial.validation is not None]
        ranked = sorted(alone, key=lambda trial: -(trial.validation or 0.0))
        joined = [trial.instructions for trial in ranked[:1]]
        for trial in ranked[1:]:
            best = search.chosen.instructions
            if best and best == JOINT.join(joined):
                search.consider(Examples(instructions=JOINT.join([*joined, trial.instructions])))
                if search.chosen.instructions != best:
                    joined.append(trial.instructions)
        return search.report()


JOINT = "\n\n"
