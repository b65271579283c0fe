"""A grader that is a scorer or a judge of MLflow (`mlflow.genai`: `@scorer`, `make_judge`), named by its import path.

Nothing here imports MLflow: the file that makes the scorer does, and what it says is read by its attributes.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any, Literal

from pydantic import Field, field_validator

from rlft.errors import RewardError
from rlft.specification.attempt import Attempt, Verdict
from rlft.specification.grader import Grader, short
from rlft.workers.threads import in_thread

_WORDS = {"yes": 1.0, "true": 1.0, "pass": 1.0, "no": 0.0, "false": 0.0, "fail": 0.0}


class MlflowScorer(Grader):
    """A scorer of MLflow decides: what `@scorer` or `make_judge` has made in a file of yours. It asks its own model."""

    type: Literal["mlflow"]
    scorer: str = Field(description="The scorer, as `path/to/file.py:name` or `package.module:name`.")
    passing: list[str] = Field(
        default=[],
        description="Texts that score 1, of a scorer that answers with a text; any other text scores 0. Without any, "
        "`yes`, `true` and `pass` score 1 and `no`, `false` and `fail` 0, whatever the case.",
    )

    @field_validator("scorer")
    @classmethod
    def _names_a_scorer(cls, name: str) -> str:
        place, _, attribute = name.rpartition(":")
        if not place or not attribute.isidentifier():
            raise ValueError(f"{name!r:.80} names no scorer; write my_scorers.py:kind or package.module:kind")
        return name

    def says(self) -> str:
        """Return what is checked, in words."""
        return f"MLflow's scorer {self.scorer} says {' or '.join(self.passing) or 'yes'} to it"

    async def grade(self, attempt: Attempt) -> Verdict:
        """Return what the scorer says. Raises what it raises, and RewardError for an error and for what is no score."""
        scorer = attempt.helpers.functions[self.scorer]
        self._check_needs(scorer)
        run: Callable[..., Any] = getattr(scorer, "run", scorer)  # gives a scorer those arguments alone that it takes
        asked = {
            "inputs": {"messages": [{"role": "user", "content": str(attempt.item.get("prompt", ""))}]},
            "outputs": attempt.text,
            "expectations": {"expected_response": attempt.item["answer"]} if "answer" in attempt.item else {},
        }
        said = await in_thread(lambda: run(**copy.deepcopy(asked)))
        if (error := getattr(said, "error", None)) is not None:
            raise RewardError(f"{self.scorer} failed: {getattr(error, 'error_message', None) or error}")
        value, why = getattr(said, "value", said), getattr(said, "rationale", None)
        score = self._score(value)
        return Verdict(score, " ".join(str(why or f"{self.scorer} says {value!r:.60}").split())[:500])

    def _check_needs(self, scorer: Callable[..., Any]) -> None:
        """Raise RewardError for a scorer that must have what is not there while rewards are made."""
        parameters = inspect.signature(scorer.__call__).parameters
        if missing := [name for name in ("trace", "session") if name in parameters and _is_required(parameters[name])]:
            raise RewardError(
                f"{self.scorer} asks for the argument {missing[0]!r}, and a reward has `inputs`, `outputs` and "
                "`expectations`"
            )

    def _score(self, value: Any) -> float:
        if isinstance(value, int | float) and 0 <= value <= 1:  # True and False, too
            return float(value)
        if isinstance(value, str) and self.passing:
            return float(value in self.passing)
        if isinstance(value, str) and value.strip().lower() in _WORDS:
            return _WORDS[value.strip().lower()]
        known = "yes or no" if not self.passing else "a text"
        raise RewardError(f"{self.scorer} said {short(repr(value))}, neither a number from 0 to 1 nor {known}")


def _is_required(parameter: inspect.Parameter) -> bool:
    return parameter.default is inspect.Parameter.empty
