"""Where tasks come from and how they are split."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from rlft.config.names import check_name
from rlft.config.section import Section


class SourceConfig(Section):
    """Where tasks come from, and what the fields of a row mean."""

    source: Literal["jsonl", "csv", "parquet", "huggingface", "reasoning_gym"] = Field(
        description="A kind of file, a data set of the Hugging Face Hub, or a generator of reasoning-gym."
    )
    path: str | None = Field(
        default=None,
        description="The file (jsonl, csv, parquet), or the data set's name on the Hub or its folder (huggingface).",
    )
    revision: str | None = Field(
        default=None, description="Commit or tag of a Hub data set; pin it for a repeatable run."
    )
    subset: str | None = Field(default=None, description="Configuration name of a Hub data set.")
    hub_split: str = Field(default="train", description="Which split of the Hub data set to read.")
    generator: str | None = Field(default=None, description="reasoning_gym: the generator's name, such as chain_sum.")
    generator_kwargs: dict[str, Any] = Field(default={}, description="reasoning_gym: arguments of the generator.")
    first_index: int = Field(default=0, ge=0, description="reasoning_gym: index of the first item.")
    prompt: str | None = Field(
        default=None,
        description="Field with the prompt (text or messages), or a template such as '{question}\\nAnswer:'; "
        "null: `prompt`, `question` or `text`.",
    )
    answer: str | None = Field(
        default=None,
        description="Field with the right answer, or a template over the row's fields; null: `answer`, `ground_truth` "
        "or `reward_model.ground_truth`.",
    )
    id: str | None = Field(default=None, description="Field with a unique id; otherwise ids are made from the content.")
    group: str | None = Field(
        default=None, description="Field whose equal values keep rows together: they never get into different splits."
    )

    @field_validator("revision")
    @classmethod
    def _is_a_name(cls, revision: str | None) -> str | None:
        return revision if revision is None else check_name(revision, slashes=True)

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Self:
        if self.source == "reasoning_gym" and not self.generator:
            raise ValueError("source reasoning_gym needs `generator`, for example chain_sum")
        if self.source != "reasoning_gym" and not self.path:
            raise ValueError(f"source {self.source} needs `path`")
        return self


class SplitsConfig(Section):
    """How many tasks go to each split. A generator makes as many; the rows of a file are dealt in these proportions."""

    train: int = Field(default=2000, ge=1, description="Trained on.")
    validation: int = Field(default=100, ge=1, description="Measured before and during training; picks the best round.")
    gate: int = Field(default=200, ge=1, description="Decides about promotion, once, at the end.")
    test: int = Field(default=200, ge=1, description="Decides about `status: improved`, at the end.")


class TasksConfig(SourceConfig):
    """The tasks, their splits, and what may be wrong with them."""

    seed: int = Field(
        default=0,
        ge=0,
        description="Decides which task gets into which split. It is not the run's seed, so that runs with "
        "different seeds can be compared.",
    )
    splits: SplitsConfig = SplitsConfig()
    max_bad_rows: int = Field(
        default=0, ge=0, description="How many unusable rows are left out; with more, the run stops."
    )
    off_distribution: SourceConfig | None = Field(
        default=None, description="Tasks of another kind, to see whether the gain carries over; only reported."
    )
    off_distribution_count: int = Field(
        default=200, ge=1, description="How many tasks of `off_distribution` are taken."
    )
