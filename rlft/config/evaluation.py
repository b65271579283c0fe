"""The look at the task before training, validation, comparison, promotion and what is written down."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from rlft.config.names import check_name
from rlft.config.section import Section, changed


class BaselineConfig(Section):
    """The measurement before training that says whether training can help."""

    num_tasks: int = Field(default=100, ge=1, description="How many validation tasks are tried, at most.")
    num_generations: int = Field(default=8, ge=2, description="Attempts at each of them.")
    already_solved: float = Field(
        default=0.97,
        gt=0,
        le=1,
        description="Share of right attempts (avg@k) from which the task counts as solved: nothing is trained.",
    )


class EvaluationConfig(Section):
    """Validation during training and the comparison at the end."""

    metric: Literal["accuracy", "reward"] = Field(
        default="accuracy", description="What models are compared by: the share of solved attempts, or the mean reward."
    )
    num_generations: int = Field(
        default=1, ge=1, description="Attempts per task; more than one needs a temperature above 0."
    )
    temperature: float = Field(
        default=0.0, ge=0, description="Sampling temperature; 0 always takes the likeliest token."
    )
    top_p: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="Sample only among the likeliest tokens that together have this probability.",
    )
    top_k: int = Field(default=0, ge=0, description="Sample only among this many likeliest tokens; 0: among all.")
    min_p: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Sample only among tokens at least this fraction as likely as the likeliest.",
    )
    validate_every: int = Field(default=5, ge=1, description="The policy is validated after every so many rounds.")
    patience: int = Field(
        default=0, ge=0, description="Training ends after so many validations in a row without a new best; 0: never."
    )
    sft_control: bool = Field(
        default=True,
        description="In a run with a warm start, also continue that supervised fine-tuning for as many seconds as "
        "GRPO took, to see whether it does as well.",
    )
    resamples: int = Field(
        default=10_000, ge=100, description="How often the tasks are resampled for an interval (bootstrap)."
    )

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

    name: str | None = Field(default=None, description="Name in the model registry; null: the config's `name`.")
    min_improvement: float = Field(
        default=0.0,
        ge=0,
        description="On `gate`, the lower bound of every difference (to base, warm start, champion) must exceed this.",
    )

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str | None) -> str | None:
        return name if name is None else check_name(name)


class TrackingConfig(Section):
    """What is written to MLflow."""

    experiment: str | None = Field(
        default=None, description="Name of the MLflow experiment; null: the config's `name`."
    )
    trace_every: int = Field(
        default=10, ge=0, description="Rollouts of every so many rounds are stored as MLflow traces; 0: none."
    )
    trace_rollouts: int = Field(default=16, ge=1, description="How many rollouts of such a round are traced.")

    @field_validator("experiment")
    @classmethod
    def _is_a_name(cls, experiment: str | None) -> str | None:
        return experiment if experiment is None else check_name(experiment, slashes=True)
