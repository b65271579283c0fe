"""The look at the task before training, validation, comparison, promotion and what is written down."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from rlft.config.names import check_name
from rlft.config.section import Section, changed


class BaselineConfig(Section):
    """The look at the task before training: is it worth training at all?"""

    num_tasks: int = Field(default=100, ge=1, description="Validation tasks to try, at most.")
    num_generations: int = Field(default=8, ge=2)
    already_solved: float = Field(default=0.97, gt=0, le=1, description="avg@k from which training is pointless.")


class EvaluationConfig(Section):
    """Validation during training and the comparison at the end."""

    metric: Literal["accuracy", "reward"] = Field(
        default="accuracy", description="What counts: solved, or the mean reward."
    )
    num_generations: int = Field(default=1, ge=1, description="Samples per task; several need temperature above 0.")
    temperature: float = Field(default=0.0, ge=0, description="0 is greedy.")
    top_p: float = Field(
        default=1.0, gt=0, le=1, description="Sample among the likeliest tokens that together have this probability."
    )
    top_k: int = Field(default=0, ge=0, description="Sample among this many likeliest tokens; 0: among all.")
    min_p: float = Field(
        default=0.0, ge=0, lt=1, description="Sample among tokens at least this fraction as likely as the likeliest."
    )
    validate_every: int = Field(default=5, ge=1, description="Rounds between validations.")
    patience: int = Field(default=0, ge=0, description="Validations without a new best before training ends; 0: never.")
    sft_control: bool = Field(
        default=True, description="Also train SFT for the same seconds, to see if that does as well."
    )
    resamples: int = Field(default=10_000, ge=100, description="Bootstrap resamples of an interval.")

    @model_validator(mode="after")
    def _samples_among_several(self) -> Self:
        for name, value in changed(self, "top_p", "top_k", "min_p").items():
            if self.temperature == 0:
                raise ValueError(
                    f"{name}={value} does nothing with temperature 0, which always takes the likeliest token; "
                    f"set temperature, or remove {name}"
                )
        return self


class PromotionConfig(Section):
    """When a trained policy becomes the champion."""

    name: str | None = Field(default=None, description="Name in the model registry; default: the run's name.")
    min_improvement: float = Field(default=0.0, ge=0, description="Each lower bound on `gate` must exceed this.")

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str | None) -> str | None:
        return name if name is None else check_name(name)


class TrackingConfig(Section):
    """What is written to MLflow."""

    experiment: str | None = Field(default=None, description="MLflow experiment; default: the run's name.")
    trace_every: int = Field(default=10, ge=0, description="Rounds between traced rollouts; 0: no traces.")
    trace_rollouts: int = Field(default=16, ge=1, description="Rollouts that are traced in such a round.")

    @field_validator("experiment")
    @classmethod
    def _is_a_name(cls, experiment: str | None) -> str | None:
        return experiment if experiment is None else check_name(experiment, slashes=True)
