"""A suite: what models are evaluated on. It is a YAML file of its own, or the section `suite` of a config.

A scenario is tasks with an environment and a reward. Each is attempted in one or several ways of sampling: a *cell* is
a scenario in one of them, such as `held_out` or `held_out-sampled`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BeforeValidator, Field, model_validator

from rlft.config.environment import EnvironmentConfig, HarnessConfig, RewardConfig, with_specification
from rlft.config.evaluation import AttemptsConfig
from rlft.config.policy import LoadedModel
from rlft.config.rollout import SampledConfig
from rlft.config.section import LARGEST_SEED, MOST, FolderName, PlainName, Section, Text, refuse_secrets
from rlft.config.tasks import TasksConfig
from rlft.types import Split

Word = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,49}$")]
"""The name of a scenario or of a way of sampling."""


class SuiteSampling(AttemptsConfig):
    """One way of sampling the attempts of a scenario."""

    name: Word | None = Field(
        default=None,
        description="What it is called beside others, as in `held_out-sampled`. null, where there is one alone, means "
        "that the scenario's name is enough.",
    )
    max_completion_length: int | None = Field(
        default=None,
        ge=1,
        le=MOST,
        description="The model may sample at most this many tokens in one turn. null means "
        "`rollout.max_completion_length` of the config, and 256 in a file of its own.",
    )


def _as_list(given: Any) -> Any:
    return [given] if isinstance(given, Mapping) else given


class ScenarioConfig(Section):
    """Tasks that models attempt, with environment, reward and harness, and how the attempts are sampled."""

    tasks: TasksConfig | None = Field(
        default=None, description="Where the tasks come from. null means the config's own section `tasks`."
    )
    environment: EnvironmentConfig | None = Field(
        default=None, description="The environment. null means the config's own."
    )
    reward: RewardConfig | None = Field(
        default=None, description="How rewards add up. null means the config's own, and the defaults in a file."
    )
    harness: HarnessConfig | None = Field(
        default=None, description="Limits of a rollout. null means the config's own, and the defaults in a file."
    )
    splits: list[Split] | Literal["all"] = Field(
        default=["test"],
        description="Splits whose tasks are attempted, each reported by itself; `all` takes every task of the source, "
        "reported together as `test`.",
    )
    num_tasks: int | None = Field(
        default=None, ge=1, le=MOST, description="At most this many tasks of each split. null means all of them."
    )
    sampling: Annotated[list[SuiteSampling], BeforeValidator(_as_list)] = Field(
        default=[SuiteSampling()],
        min_length=1,
        max_length=20,
        description="How attempts are sampled: settings as in `evaluation`, or a list of several ways with a `name` "
        "each, such as greedy and sampled.",
    )
    slices: list[Text] = Field(
        default=[],
        max_length=20,
        description="Columns of the tasks by whose values the metrics are reported, too.",
    )

    @model_validator(mode="after")
    def _scores_as_specified(self) -> Self:
        if self.environment is not None and self.reward is not None:
            object.__setattr__(self, "environment", with_specification(self.environment, self.reward))
        return self

    @model_validator(mode="after")
    def _names_what_it_has(self) -> Self:
        if self.tasks is not None and self.tasks.use is not None:
            raise ValueError("tasks.use: models are compared on no tasks from use; remove the section here")
        if len({each.name for each in self.sampling}) < len(self.sampling):
            raise ValueError("sampling: give each of several ways a `name` of its own, such as greedy")
        return self


class SuiteSection(Section):
    """What `rlft evaluate` attempts with every model: scenarios. Without it, the config's own splits are one."""

    scenarios: dict[Word, ScenarioConfig] = Field(
        min_length=1, max_length=100, description="The scenarios by their names."
    )
    metric: Literal["accuracy", "reward"] | None = Field(
        default=None,
        description="What models are compared by. null means `evaluation.metric` of the config, and `accuracy` where "
        "that is `auto` and in a file.",
    )
    max_traces: int | None = Field(
        default=None,
        ge=0,
        le=MOST,
        description="At most this many attempts of each model and scenario are stored as MLflow traces. null means all "
        "of them.",
    )
    cache_endpoint: bool = Field(
        default=False,
        description="Whether answers of a model behind an address are taken from the cache. Nobody knows whether its "
        "weights are the same as the last time.",
    )


class Cell(NamedTuple):
    """A scenario in one way of sampling: its `name` among the results, and settings that are all there."""

    name: str
    scenario: str
    tasks: TasksConfig
    environment: EnvironmentConfig
    reward: RewardConfig
    harness: HarnessConfig
    splits: list[Split]
    is_whole: bool
    num_tasks: int | None
    sampling: SuiteSampling
    slices: list[str]


class SuiteConfig(SuiteSection):
    """A whole suite, with what its models are loaded and sampled with: a file of its own, or made from a config."""

    name: PlainName = Field(
        description="Name of the suite: letters, digits, `_`, `.` and `-`. The MLflow experiment is named after it.",
    )
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED, description="Seed of all random draws but those of the tasks.")
    policy: LoadedModel = LoadedModel()
    rollout: SampledConfig = SampledConfig()
    experiment: FolderName | None = Field(
        default=None, description="Name of the MLflow experiment. null means the suite's `name`."
    )

    @model_validator(mode="before")
    @classmethod
    def _holds_no_secrets(cls, content: Any) -> Any:
        return refuse_secrets(content)

    @model_validator(mode="after")
    def _can_be_run(self) -> Self:
        engine = self.rollout.kind
        if not engine.restarts:
            raise ValueError(
                f"rollout.engine: the servers of {self.rollout.engine} sample one policy's own model alone; use vllm "
                "or transformers, or name the model as openai:MODEL@URL"
            )
        for name, scenario in self.scenarios.items():
            if missing := [part for part in ("tasks", "environment") if getattr(scenario, part) is None]:
                raise ValueError(f"scenarios.{name}.{missing[0]}: it is missing, and a suite's own file has no other")
            for way in scenario.sampling:
                engine.check_temperature(way.temperature, f"scenarios.{name}.sampling.temperature")
        return self

    @property
    def main_metric(self) -> Literal["accuracy", "reward"]:
        """What models are compared by."""
        return self.metric or "accuracy"

    def cells(self) -> list[Cell]:
        """Return every scenario in every way of sampling, in the order of the file."""
        return [
            _cell(name, scenario, way, self.rollout.max_completion_length)
            for name, scenario in self.scenarios.items()
            for way in scenario.sampling
        ]


def _cell(name: str, scenario: ScenarioConfig, way: SuiteSampling, longest: int) -> Cell:
    assert scenario.tasks is not None
    assert scenario.environment is not None
    whole = scenario.splits == "all"
    length = way.max_completion_length or longest
    return Cell(
        name=name if way.name is None else f"{name}-{way.name}",
        scenario=name,
        tasks=scenario.tasks,
        environment=scenario.environment,
        reward=scenario.reward or RewardConfig(),
        harness=scenario.harness or HarnessConfig(),
        splits=["test"] if isinstance(scenario.splits, str) else scenario.splits,
        is_whole=whole,
        num_tasks=scenario.num_tasks,
        sampling=way.model_copy(update={"max_completion_length": length}),
        slices=scenario.slices,
    )
