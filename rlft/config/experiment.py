"""The whole config of an experiment: all its sections, and the checks that need more than one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from rlft.config.environment import EnvironmentConfig, HarnessConfig, RewardConfig, with_specification
from rlft.config.evaluation import (
    AnyControl,
    BaselineConfig,
    EvaluationConfig,
    ModelControl,
    PromotionConfig,
    TrackingConfig,
    arms,
)
from rlft.config.policy import PolicyConfig, WarmStartConfig
from rlft.config.rollout import DistributedConfig, RolloutConfig
from rlft.config.section import (
    LARGEST_SEED,
    LONGEST_NAME,
    Section,
    check_plain_name,
    refuse_secrets,
    refuse_unread_variables,
)
from rlft.config.several import MemberConfig, check_fits_several, sections_of, with_places, with_plain_environment
from rlft.config.suite import SuiteSection
from rlft.config.tasks import TasksConfig
from rlft.config.training import BudgetConfig, MonitorsConfig, TrainingConfig

# The only settings in which `env:NAME` is replaced by the value of that environment variable.
READS_VARIABLES = (
    "environment.kwargs",
    "environments.*.environment.kwargs",
    "rollout.server.addresses",
    "controls[].api_key",
    "suite.scenarios.*.environment.kwargs",
    "reward.spec.judge.api_key",
    "environments.*.reward.spec.judge.api_key",
    "suite.scenarios.*.reward.spec.judge.api_key",
)


class Config(Section):
    """The whole config of one experiment, as a YAML file holds it."""

    name: str = Field(
        max_length=LONGEST_NAME,
        description="Name of the experiment: letters, digits, `_`, `.` and `-`. Runs, the MLflow experiment and the "
        "registered model are named after it.",
    )
    seed: int = Field(
        default=0, ge=0, le=LARGEST_SEED, description="Seed of all random draws but those of `tasks.seed`."
    )
    tasks: TasksConfig
    environment: EnvironmentConfig
    environments: dict[str, MemberConfig] = Field(
        default={},
        max_length=100,
        exclude_if=lambda environments: not environments,
        description="Several environments by their names, each with its own tasks and reward, in place of "
        "`environment`, `tasks` and `reward` (see [several environments](several-environments.md)).",
    )
    reward: RewardConfig = RewardConfig()
    policy: PolicyConfig
    warm_start: WarmStartConfig | None = None
    baseline: BaselineConfig = BaselineConfig()
    rollout: RolloutConfig = RolloutConfig()
    harness: HarnessConfig = HarnessConfig()
    training: TrainingConfig = TrainingConfig()
    distributed: DistributedConfig | None = None
    budget: BudgetConfig = BudgetConfig()
    monitors: MonitorsConfig = MonitorsConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    controls: list[AnyControl] | None = Field(
        default=None,
        max_length=10,
        description="Which controls are made for comparison, each with at most the FLOPs of the training, by name or "
        "with their settings, as in `[sft, {model: NAME}]` ([which there are](#controls)). null means all that apply "
        "of those without settings, and [] none.",
    )
    promotion: PromotionConfig = PromotionConfig()
    tracking: TrackingConfig = TrackingConfig()
    suite: SuiteSection | None = None

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        return check_plain_name(name)

    def arms(self) -> list[Any]:
        """Return the arms (`rlft.evaluation.arms`) that `controls` name, or those that a run has by default."""
        if self.controls is not None:
            return self.controls
        return [kind() for kind in arms().values() if kind.by_default and not kind.in_every_run]

    @property
    def chosen_by(self) -> str:
        """The metric of validation by which the best round is chosen: what counts, if `monitors.honest` names it."""
        honest = self.monitors.honest
        return self.evaluation.metric if honest is None else f"rewards/{honest}"

    def comparing(self, metric: str) -> Config:
        """Return the config with this `evaluation.metric`, where it left that to what the baseline shows."""
        return self.model_copy(update={"evaluation": self.evaluation.model_copy(update={"metric": metric})})

    @property
    def environment_name(self) -> str:
        """The environment's class, or the names of several environments."""
        return ", ".join(self.environments) or self.environment.name

    @property
    def registry_name(self) -> str:
        """The name of the model in a registry."""
        return self.promotion.name or self.name

    @property
    def shares(self) -> dict[str, float] | None:
        """The shares of several environments by their names; `None` with one."""
        return {name: member.share for name, member in self.environments.items()} or None

    @property
    def other_model(self) -> ModelControl | None:
        """The model that `controls` name for comparison; `None` if they name none."""
        return next((each for each in self.arms() if isinstance(each, ModelControl)), None)

    @model_validator(mode="before")
    @classmethod
    def _has_an_environment(cls, content: Any) -> Any:
        return with_plain_environment(content)

    @model_validator(mode="before")
    @classmethod
    def _has_places_for_several(cls, content: Any) -> Any:
        return with_places(content) if isinstance(content, Mapping) else content

    @model_validator(mode="after")
    def _engines_are_started_by_ray(self) -> Self:
        if self.rollout.server.engines and self.distributed is None:
            raise ValueError("rollout.server.engines are started by Ray; add `distributed: {engine: ray}`")
        return self

    @model_validator(mode="after")
    def _is_made_of_several(self) -> Self:
        if not self.environments:
            if self.tasks.members is not None or self.reward.members is not None:
                raise ValueError("`members` of tasks and reward are made of `environments`; write these")
            return self
        for name, made in sections_of(self.environments).items():
            if self.environment.kwargs and getattr(self, name) != made:  # a stored config that was changed
                raise ValueError(f"{name} is made of `environments`; change it in environments.NAME.{name}")
        for name, made in sections_of(self.environments).items():
            object.__setattr__(self, name, made)  # the section is frozen for everyone else
        if "environment" not in self.promotion.slices:
            slices = [*self.promotion.slices, "environment"]
            object.__setattr__(self, "promotion", self.promotion.model_copy(update={"slices": slices}))
        check_fits_several(self)
        return self

    @model_validator(mode="after")
    def _scores_as_specified(self) -> Self:
        # The section is frozen for everyone else.
        object.__setattr__(self, "environment", with_specification(self.environment, self.reward))
        return self

    @model_validator(mode="before")
    @classmethod
    def _holds_no_secrets(cls, content: Any) -> Any:
        if isinstance(content, Mapping):
            refuse_secrets(content)
        return content

    @model_validator(mode="after")
    def _names_variables_where_they_are_read(self) -> Self:
        refuse_unread_variables(self.model_dump(), READS_VARIABLES)
        return self

    @model_validator(mode="after")
    def _suits_its_engine(self) -> Self:
        engine, name = self.rollout.kind, self.rollout.engine
        for section, temperature in (
            ("rollout", self.rollout.temperature),
            ("evaluation", self.evaluation.temperature),
        ):
            if not engine.samples_at(temperature):
                low, high = engine.temperatures
                raise ValueError(
                    f"{section}.temperature={temperature:g}: {name} samples at {low:g} to {high:g}; set it so, or "
                    "rollout.engine to transformers"
                )
        if self.policy.lora and not engine.adapters:
            raise ValueError(f"policy.lora: the engine {name} samples from no adapter; set rollout.engine otherwise")
        return self

    @model_validator(mode="after")
    def _has_controls_that_fit(self) -> Self:
        names = [arm.name for arm in self.controls or ()]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"controls: leave one `{twice[0]}` in the list")
        for arm in self.controls or ():
            arm.check(self)
        return self

    @model_validator(mode="after")
    def _can_be_promoted(self) -> Self:
        if "off_distribution" in self.promotion.suites and not self.tasks.has_off_distribution:
            raise ValueError(
                "promotion.suites names off_distribution, and the config has no such tasks; set "
                "tasks.off_distribution, or take it out of the suites"
            )
        if self.promotion.audit == "required" and not self.reward.audit:
            raise ValueError(
                "promotion.audit is required, and reward.audit is false, so nothing could be promoted; set one of "
                "them otherwise"
            )
        return self

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.evaluation.num_generations > 1 and self.evaluation.temperature == 0:
            raise ValueError(
                "evaluation.num_generations above 1 with temperature 0 samples the same answer again; "
                "set evaluation.temperature, or num_generations to 1"
            )
        scratch = self.policy.from_scratch
        if scratch and self.policy.lora:
            raise ValueError("policy.lora on random weights trains nothing useful; remove `lora` or name a `model`")
        if scratch and self.rollout.max_completion_length >= scratch.max_position_embeddings:
            raise ValueError(
                "rollout.max_completion_length leaves no room for the prompt: raise "
                "policy.from_scratch.max_position_embeddings or lower it"
            )
        if self.training.tasks_per_round > self.tasks.splits.train and self.tasks.source == "reasoning_gym":
            raise ValueError("training.tasks_per_round exceeds tasks.splits.train")
        return self
