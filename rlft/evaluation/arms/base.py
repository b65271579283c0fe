"""The base classes of arms: what something simpler than training reaches from the same start, data and budget."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rlft.types.declared import Declared

if TYPE_CHECKING:
    from rlft.config import Config
    from rlft.evaluation.searches.prompts import PromptReport
    from rlft.evaluation.searches.validator import ControlReport, Terms, Validator
    from rlft.harness.rollout import Player
    from rlft.models import Policy
    from rlft.progress import Progress

Beginning = Literal["start", "base", "own"]
SCRATCH = "the policy began with random weights, and learns nothing from what stands in its prompt"
SEVERAL = "the same text stands before every prompt, and the run has several environments"


class Arm(Declared, ABC):
    """Defines an arm, which `controls` names by its name alone, or as a mapping of its settings.

    Attributes:
        label: What results call it.
        begins: Which model it is made of: the one that the rounds began with (`start`), the one before the warm start
            (`base`), or another one (`own`).
        by_default: Whether a run that names no controls has it.
        in_every_run: Whether every run has it: then `controls` does not name it.
    """

    label: ClassVar[str]
    begins: ClassVar[Beginning] = "start"
    by_default: ClassVar[bool] = True
    in_every_run: ClassVar[bool] = False

    def check(self, config: Config) -> None:
        """Raise ValueError for a config that it does not fit."""

    def check_here(self) -> None:
        """Raise RlftError if it cannot be made on this machine, before a run is begun."""

    def why_not(self, config: Config, *, has_answers: bool) -> str:
        """Return why it does not apply to a run; empty if it does.

        `has_answers` says whether there is a right answer to a train task, or a file of demonstrations.
        """
        del config, has_answers
        return ""

    def validations(self) -> tuple[int, int] | None:
        """Return how often it is validated while it is searched, at least and at most; `None` if nobody can foretell.

        An estimate counts as much. What an arm that is trained takes follows from the rounds, whose FLOPs it may spend.
        """
        return None

    def decisive(self) -> dict[str, Any]:
        """Return the settings on which what it makes depends: with others it is made again."""
        return self.model_dump(mode="json")

    def terms(self, terms: Terms) -> Terms:
        """Return by which of the terms of a run it is made."""
        return terms


class PolicyArm(Arm):
    """Defines an arm that is trained."""

    @abstractmethod
    def train(self, policy: Policy, validator: Validator, terms: Terms, progress: Progress) -> ControlReport:
        """Change `policy`, which the rounds began with, in place to the best one that is found."""


class PromptArm(Arm):
    """Defines an arm that is not trained, and reads a text before each prompt."""

    begins: ClassVar[Beginning] = "base"

    def why_not(self, config: Config, *, has_answers: bool) -> str:
        """Return why the run's own model does not learn from its prompt; empty if it may."""
        del has_answers
        if config.policy.model is None:
            return SCRATCH
        return SEVERAL if config.environments else ""

    def choose(self, player: Player, validator: Validator, terms: Terms, progress: Progress) -> PromptReport:
        """Choose the text by validation: number, form and answers of some examples. `player` is the model."""
        from rlft.evaluation.searches.prompts import choose_examples

        return choose_examples(player, validator, terms, progress)
