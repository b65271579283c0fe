"""Another model, which is not trained: is the trained one better than a larger one?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rlft.config.evaluation import ModelControl
from rlft.evaluation.arms.base import Beginning, PromptArm

if TYPE_CHECKING:
    from rlft.config import Config
    from rlft.evaluation.searches.validator import Terms


class Model(ModelControl, PromptArm):
    """Is another model with some answers in its prompt: by hub name or folder, or behind an `endpoint`."""

    name: ClassVar[str] = "model"
    label: ClassVar[str] = "other model with examples in its prompt"
    begins: ClassVar[Beginning] = "own"
    by_default: ClassVar[bool] = False
    example: ClassVar[dict[str, Any]] = {"model": "some/model"}

    def check(self, config: Config) -> None:
        """Raise ValueError if the engine cannot sample from it."""
        if self.endpoint is None and not config.rollout.kind.restarts:
            raise ValueError(
                f"controls: the servers of rollout.engine {config.rollout.engine} sample the policy's own model alone; "
                "give `model` an `endpoint`, take it out of the list, or set rollout.engine to vllm or transformers"
            )

    def why_not(self, config: Config, *, has_answers: bool) -> str:
        """Return nothing, as it always applies."""
        del config, has_answers
        return ""

    def decisive(self) -> dict[str, Any]:
        """Return its name: a model is known by its weights or its answers, and a key changes neither."""
        return {"model": self.model}

    def terms(self, terms: Terms) -> Terms:
        """Return terms without the cost of a validation, as it has another size; behind an address without any cost."""
        unknown: dict[str, Any] = {"validation_flops": None}
        if self.endpoint is not None:
            unknown |= {"flops": None, "training": None, "sampling": None, "rounds": 0}
        return terms.model_copy(update=unknown)
