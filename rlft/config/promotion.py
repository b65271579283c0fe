"""The section `promotion` of a config."""

from __future__ import annotations

from typing import Any, Literal, Self, get_args

from pydantic import Field, field_validator, model_validator

from rlft.config.names import ModelName, Text
from rlft.config.section import Section

PromotionSuite = Literal["test", "off_distribution"]  # splits beside `gate` on which every policy is evaluated


class SuiteRule(Section):
    """What must hold on a suite beside the gate."""

    margin: float = Field(
        gt=0,
        le=1e9,
        description="The lower bound of each difference in `evaluation.metric` must lie above minus this.",
    )


class PromotionConfig(Section):
    """When a trained policy becomes the champion, the model that is in use."""

    name: ModelName | None = Field(
        default=None, description="Name of the model in the registry. null means the config's `name`."
    )
    approval: Literal["none", "required"] = Field(
        default="none",
        description="`none`: a policy that passes the gate becomes the champion at once. `required`: it waits as the "
        "challenger until a person has approved it with `rlft approve`, or rejected it with `rlft reject`.",
    )
    looks: int = Field(
        default=20,
        ge=1,
        le=1000,
        description="How many decisions one gate may see. A chance of 5 % that a model which is no better is promoted "
        "is split equally over them, so more looks need a larger gain; afterwards nothing is promoted until the gate "
        "is drawn anew. It holds for models that nobody has chosen by what the gate said.",
    )
    min_improvement: float = Field(
        default=0.0,
        ge=0,
        le=1e9,
        description="How much better than the base model, the warm start and the champion the policy must be: the "
        "lower bound of each difference in `evaluation.metric` on the split `gate` must exceed this.",
    )
    suites: dict[PromotionSuite, SuiteRule] = Field(
        default={},
        description="Splits on which the policy must be shown to lose no more than a margin to the base model, the "
        "warm start and the champion, as in `{off_distribution: {margin: 0.02}}`. A split of too few tasks shows "
        "nothing, and then nothing is promoted.",
    )
    slices: list[Text] = Field(
        default=[],
        max_length=20,
        description="Columns of the tasks. For each of their values the tasks of `gate` that have it are a slice. A "
        "policy that is shown worse in one of them than the champion, or before the first one than the base model, is "
        "not promoted.",
    )
    slice_margin: float = Field(
        default=0.05,
        gt=0,
        le=1e9,
        description="A slice reads `no worse` where a loss of this much in `evaluation.metric` would have been found "
        "four times out of five, else `cannot tell`.",
    )
    max_length_ratio: float | None = Field(
        default=None,
        ge=0.01,
        le=100,
        description="The completions on `gate` must be shown to have on average at most this many times the tokens of "
        "those of the champion, or before the first one of the base model. null means that their length is no matter.",
    )
    audit: Literal["optional", "required"] = Field(
        default="optional",
        description="`required`: nothing is promoted unless the reward has passed its audit (`reward.audit`).",
    )

    @field_validator("suites", mode="before")
    @classmethod
    def _names_splits(cls, suites: Any) -> Any:
        for name in suites if isinstance(suites, dict) else ():
            if name not in get_args(PromotionSuite):
                raise ValueError(
                    f"{name!r:.80} is no split beside the gate; write {' or '.join(get_args(PromotionSuite))}"
                )
        return suites

    @model_validator(mode="after")
    def _names_a_column_once(self) -> Self:
        if len(set(self.slices)) < len(self.slices):
            raise ValueError("slices names a column twice; name each once")
        return self
