"""The section `tasks` of a config: where tasks come from, also from use of a served model, and how they are split."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from rlft.config.section import LARGEST_SEED, MOST, FolderName, PathText, Plain, Section, Text
from rlft.texts.privacy import PERSONAL, Personal


class UseConfig(Section):
    """Tasks from use: traces of MLflow, which join `train` and `validation` and never a split that decides
    ([how](use.md))."""

    experiment: FolderName = Field(
        description="Name of the MLflow experiment that holds the traces, such as NAME-served, which `rlft serve "
        "--log-conversations` fills."
    )
    tags: dict[str, str] = Field(
        default={},
        description="Tags, with their values, that a trace must have, such as {rlft.version: '3'}.",
    )
    days: float | None = Field(
        default=None, gt=0, le=36_500, description="Only what was asked in the last so many days."
    )
    feedback: dict[str, Plain] = Field(
        default={},
        description="Feedback, with its value, that a person must have given to a trace, such as {correct: false} for "
        "the answers that were wrong.",
    )
    prompt: Text | None = Field(
        default=None,
        description="Field of the inputs that holds the prompt (text or messages). null means the first of `messages`, "
        "`prompt`, `question`, `text`, `input`, `query` and `inputs` that they have.",
    )
    expectation: Text = Field(
        default="expected_response", description="Name of the expectation that holds the right answer."
    )
    correction: Text = Field(
        default="correction", description="Name of the feedback in which a person writes the right answer."
    )
    approval: Text | None = Field(
        default=None,
        description="Name of the feedback by which a person says that the answer was right (true, or `yes`): the "
        "answer that was given is then gold. null means that no answer of a model is gold.",
    )
    gold: Literal["required", "optional", "none"] = Field(
        default="required",
        description="required leaves out what nobody gave the right answer of; optional takes it without an answer; "
        "none takes all without answers, for rewards that need none.",
    )
    mask: list[Personal] = Field(
        default=list(PERSONAL),
        max_length=len(PERSONAL),
        description="Kinds of personal data that are masked in prompts and answers before anything is stored. [] means "
        "none.",
    )
    most: int | None = Field(default=None, ge=1, le=MOST, description="At most this many tasks are taken.")
    max_share: float = Field(
        default=0.5,
        gt=0,
        le=0.9,
        description="At most this share of the `train` tasks of a run is from use, and of its `validation` tasks.",
    )
    validation_share: float = Field(
        default=0.1,
        ge=0,
        le=0.5,
        description="Share of what people ask that belongs to `validation`, for good: a hash of the question decides.",
    )


class SourceConfig(Section):
    """Where tasks come from, and what the fields of a row mean."""

    source: Literal["jsonl", "csv", "parquet", "huggingface", "reasoning_gym", "environments"] = Field(
        description="Kind of the source: a file, a data set of the Hugging Face Hub, or a generator of reasoning-gym. "
        "`environments` is not to be written: it stands for the sources of several environments."
    )
    path: PathText | None = Field(
        default=None,
        description="Path of the file (jsonl, csv, parquet), or name on the Hub or folder of the data set "
        "(huggingface). A relative path is one of the folder that the command is run in.",
    )
    revision: FolderName | None = Field(
        default=None,
        description="Branch, tag or commit of a Hub data set; pin a commit for a repeatable run. null means its main "
        "branch.",
    )
    subset: Text | None = Field(
        default=None, description="Name of a Hub data set's configuration. null means its default one."
    )
    hub_split: Text = Field(default="train", description="Split of the Hub data set that is read.")
    generator: Text | None = Field(
        default=None, description="Name of the generator, such as chain_sum (reasoning_gym only)."
    )
    generator_kwargs: dict[str, Plain] = Field(
        default={}, description="Arguments of the generator (reasoning_gym only)."
    )
    first_index: int = Field(
        default=0, ge=0, le=2**62, description="Index of the first item that is drawn (reasoning_gym only)."
    )
    prompt: Text | None = Field(
        default=None,
        description="Field of a row that holds the prompt (text or messages), or a template such as "
        "'{question}\\nAnswer:'. null means the first of `prompt`, `question` and `text` that a row has.",
    )
    answer: Text | None = Field(
        default=None,
        description="Field of a row that holds the right answer, or a template over the row's fields. null means the "
        "first of `answer`, `ground_truth` and `reward_model.ground_truth` that a row has. A blank text, such as an "
        "empty cell, is no answer.",
    )
    id: Text | None = Field(
        default=None,
        description="Field of a row that holds a unique id. null means that ids are hashes of the content.",
    )
    group: Text | None = Field(
        default=None,
        description="Field whose equal values keep rows in the same split. null means that rows which ask the same "
        "stay together, whatever template they are shown in.",
    )

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Self:
        if self.source == "reasoning_gym" and not self.generator:
            raise ValueError("source reasoning_gym needs `generator`, for example chain_sum")
        if self.source == "environments" and type(self) is SourceConfig:
            raise ValueError("source environments stands for the tasks of several environments; name a single source")
        if self.source not in ("reasoning_gym", "environments") and not self.path:
            raise ValueError(f"source {self.source} needs `path`")
        return self


class SplitsConfig(Section):
    """How many tasks each split gets. A generator makes as many; a file is dealt nearly in these proportions.

    If any row of a file has something in a column `split`, that column decides instead, and a row that does not name
    one of these splits (or `off_distribution`) there is a bad row.
    """

    train: int = Field(default=2000, ge=1, le=10 * MOST, description="Tasks that are trained on.")
    validation: int = Field(
        default=100,
        ge=1,
        le=MOST,
        description="Tasks on which the policy is measured before and during training, to find the best round.",
    )
    gate: int = Field(default=200, ge=1, le=MOST, description="Tasks that decide about promotion, once, at the end.")
    test: int = Field(default=200, ge=1, le=MOST, description="Tasks that decide about `status: improved`, at the end.")


class TasksConfig(SourceConfig):
    """Where tasks come from, how they are split, and how many bad rows are put up with."""

    seed: int = Field(
        default=0,
        ge=0,
        le=LARGEST_SEED,
        description="Seed that decides which task gets into which split. It is not the run's seed, so that runs with "
        "different seeds can be compared.",
    )
    splits: SplitsConfig = SplitsConfig()
    max_bad_rows: int = Field(
        default=0, ge=0, le=MOST, description="At most this many unusable rows are left out. With more the run stops."
    )
    off_distribution: SourceConfig | None = Field(
        default=None,
        description="Source of tasks of another kind, which show whether the gain carries over. They are only "
        "reported on.",
    )
    off_distribution_count: int = Field(
        default=200, ge=1, le=MOST, description="At most this many tasks of `off_distribution` are taken."
    )
    use: UseConfig | None = None
    members: dict[str, TasksConfig] | None = Field(
        default=None,
        exclude_if=lambda members: members is None,
        description="Made of `environments`, and not to be written: the tasks of each of several environments.",
    )

    @model_validator(mode="after")
    def _is_one_source_or_several(self) -> Self:
        if (self.source == "environments") != (self.members is not None):
            raise ValueError("the tasks of several environments are written in `environments`, each with its own")
        return self

    def sections(self) -> dict[str, TasksConfig]:
        """Return {section of the config: the tasks written there}, one for each of several environments."""
        if self.members is None:
            return {"tasks": self}
        return {f"environments.{name}.tasks": each for name, each in self.members.items()}

    def sources(self) -> dict[str, SourceConfig]:
        """Return {section of the config: source} of all sources, those of tasks of another kind too."""
        found: dict[str, SourceConfig] = {}
        for section, tasks in self.sections().items():
            found[section] = tasks
            if tasks.off_distribution is not None:
                found[f"{section}.off_distribution"] = tasks.off_distribution
        return found

    @property
    def has_off_distribution(self) -> bool:
        """Whether there are tasks of another kind, in any environment."""
        return any(each.off_distribution is not None for each in self.sections().values())
