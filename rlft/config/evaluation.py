"""The sections `baseline`, `evaluation` and `tracking` of a config."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from rlft.config.bounds import COLDEST, HOTTEST, MOST
from rlft.config.names import FolderName
from rlft.config.section import Section, changed

logger = logging.getLogger(__name__)


class BaselineConfig(Section):
    """The measurement before training that decides whether training can help."""

    num_tasks: int = Field(default=100, ge=1, le=MOST, description="At most this many validation tasks are attempted.")
    num_generations: int = Field(default=8, ge=2, le=10_000, description="Attempts at each of these tasks.")
    already_solved: float = Field(
        default=0.97,
        gt=0,
        le=1,
        description="Share of solved attempts (avg@k, 0 to 1) from which nothing is trained, as nothing is left to "
        "learn.",
    )


class AttemptsConfig(Section):
    """How several attempts at a task are sampled for an evaluation."""

    num_generations: int = Field(
        default=1, ge=1, le=10_000, description="Attempts at each task. More than one needs a temperature above 0."
    )
    temperature: float = Field(
        default=0.0, ge=0, le=HOTTEST, description="Sampling temperature. With 0 the likeliest token is always taken."
    )
    top_p: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="Sample only among the likeliest tokens that together have this probability (nucleus sampling).",
    )
    top_k: int = Field(
        default=0, ge=0, le=MOST, description="Sample only among this many likeliest tokens. 0 means among all."
    )
    min_p: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Sample only among tokens that are at least this fraction as likely as the likeliest one.",
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

    @field_validator("temperature")
    @classmethod
    def _is_no_nearly_zero(cls, temperature: float) -> float:
        if 0 < temperature < COLDEST:
            raise ValueError(
                f"{temperature:g} is so low that dividing by it overflows; write 0, which always takes the likeliest "
                f"token, or at least {COLDEST}"
            )
        return temperature


class EvaluationConfig(AttemptsConfig):
    """Validation during training and the comparison at the end."""

    metric: Literal["auto", "accuracy", "reward"] = Field(
        default="auto",
        description="What models are compared by: `accuracy` is the share of solved attempts, `reward` the mean "
        "reward. `auto` takes the reward where it is graded, so that whether attempts are solved explains less than "
        "nine tenths of its variance over the tasks of the baseline, and else the accuracy.",
    )
    validate_every: int = Field(
        default=5,
        ge=1,
        le=MOST,
        description="The policy is validated after every n-th round, and after the last one.",
    )
    patience: int = Field(
        default=0,
        ge=0,
        le=MOST,
        description="Training ends when so many validations in a row are together not measurably better than as many "
        "before them, that before training included (task by task, one-sided t-test at 10 %). 0 means that it goes on "
        "to the last round.",
    )
    pass_at_k: bool = Field(
        default=True,
        description="Whether the model that training started from and the trained one attempt at most "
        "`baseline.num_tasks` tasks of `test` `baseline.num_generations` times each at `rollout.temperature`, to see "
        "whether training made the model solve more in several attempts, or only its first attempt better.",
    )
    forgetting: bool = Field(
        default=True,
        description="Whether it is measured what training cost elsewhere: how well the base model and the trained one "
        "predict texts that have nothing to do with the task ([forgetting](forgetting.md)). A policy from scratch has "
        "nothing to forget.",
    )
    forgetting_margin: float = Field(
        default=0.05,
        gt=0,
        le=100,
        description="Bits per byte that training may cost on each of these texts before it is said to have cost "
        "something; what the default rests on is told [there](forgetting.md#the-margin).",
    )

    @model_validator(mode="before")
    @classmethod
    def _resamples_nothing(cls, content: Any) -> Any:
        if isinstance(content, Mapping) and "resamples" in content:  # also in the stored configs of older runs
            logger.warning("evaluation.resamples has no effect any more: intervals are computed from groups of tasks")
            content = {name: value for name, value in content.items() if name != "resamples"}
        return content


class TrackingConfig(Section):
    """What is written to MLflow."""

    experiment: FolderName | None = Field(
        default=None, description="Name of the MLflow experiment. null means the config's `name`."
    )
    trace_every: int = Field(
        default=10,
        ge=0,
        le=MOST,
        description="The rollouts of every n-th round are stored as MLflow traces. 0 means that none are.",
    )
    trace_rollouts: int = Field(
        default=16, ge=1, le=MOST, description="At most this many rollouts of such a round are traced."
    )
    highest_paid: int = Field(
        default=20,
        ge=0,
        le=1000,
        description="So many of the highest-paid attempts of each round are put on a page in MLflow, for a person to "
        "read. 0 means none.",
    )
