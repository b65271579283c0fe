"""The whole config of an experiment: all its sections, and the checks that need more than one of them.

A config with the section `environments` has no `environment`, `tasks` and `reward` of its own. These are made of its
environments when it is read, so that whatever asks for them finds all members in one place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, model_validator

from rlft.config.environment import PLAIN, EnvironmentConfig, HarnessConfig, RewardConfig, with_specification
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
from rlft.config.section import LARGEST_SEED, SEVERAL, PlainName, Section, refuse_secrets
from rlft.config.suite import SuiteSection
from rlft.config.tasks import SplitsConfig, TasksConfig
from rlft.config.training import BudgetConfig, MonitorsConfig, TrainingConfig

MADE_OF_SEVERAL = ("environment", "tasks", "reward")  # sections that are made of `environments`


class MemberConfig(Section):
    """One of several environments, with the tasks that are attempted in it and the reward that scores them."""

    environment: EnvironmentConfig
    share: float = Field(
        default=1.0,
        ge=0.001,
        le=1000.0,
        description="How many tasks of a round are of this environment, in proportion to the shares of the others: "
        "with the shares 3 and 1 it is three tasks out of four.",
    )
    tasks: TasksConfig
    reward: RewardConfig = RewardConfig()

    @model_validator(mode="before")
    @classmethod
    def _has_an_environment(cls, content: Any) -> Any:
        return with_plain_environment(content)

    @model_validator(mode="after")
    def _is_one_environment(self) -> Self:
        if self.environment.name == SEVERAL or self.tasks.members is not None or self.reward.members is not None:
            raise ValueError("an environment is a single one here; name it by its own class")
        if self.tasks.use is not None:
            raise ValueError(
                "tasks.use: served answers do not say which environment they are of, so tasks from use are for a run "
                "with one `environment`; remove it"
            )
        return self


def with_plain_environment(content: Any) -> Any:
    """Return settings with the plain environment where they have a specification of the reward and name none."""
    reward = content.get("reward") if isinstance(content, Mapping) else None
    has_spec = isinstance(reward, Mapping) and reward.get("spec") is not None
    return {"environment": {"name": PLAIN}, **content} if has_spec else content


class Config(Section):
    """The whole config of one experiment, as a YAML file holds it."""

    name: PlainName = Field(
        description="Name of the experiment: letters, digits, `_`, `.` and `-`. Runs, the MLflow experiment and the "
        "registered model are named after it.",
    )
    seed: int = Field(
        default=0, ge=0, le=LARGEST_SEED, description="Seed of all random draws but those of `tasks.seed`."
    )
    tasks: TasksConfig
    environment: EnvironmentConfig
    environments: dict[PlainName, MemberConfig] = Field(
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
    def _is_whole(cls, content: Any) -> Any:
        return with_places(refuse_secrets(with_plain_environment(content))) if isinstance(content, Mapping) else content

    @model_validator(mode="after")
    def _is_made_of_several(self) -> Self:
        if not self.environments:
            if self.tasks.members is not None or self.reward.members is not None:
                raise ValueError("`members` of tasks and reward are made of `environments`; write these")
            return self
        for name, made in sections_of(self.environments).items():
            object.__setattr__(self, name, made)  # the section is frozen for everyone else
        if "environment" not in self.promotion.slices:
            slices = [*self.promotion.slices, "environment"]
            object.__setattr__(self, "promotion", self.promotion.model_copy(update={"slices": slices}))
        if wrong := _not_for_several(self):
            raise ValueError(f"{wrong}; remove it, or train on one `environment`")
        return self

    @property
    def trainers(self) -> int:
        """How many processes train."""
        return 1 if self.distributed is None else self.distributed.trainers

    @model_validator(mode="after")
    def _scores_as_specified(self) -> Self:
        # The section is frozen for everyone else.
        object.__setattr__(self, "environment", with_specification(self.environment, self.reward))
        return self

    @model_validator(mode="after")
    def _has_what_it_is_decided_by(self) -> Self:
        if "off_distribution" in self.promotion.suites and not self.tasks.has_off_distribution:
            raise ValueError("promotion.suites names off_distribution; set tasks.off_distribution, or take it out")
        return self

    @model_validator(mode="after")
    def _suits_its_engine(self) -> Self:
        engine, name = self.rollout.kind, self.rollout.engine
        engine.check_temperature(self.rollout.temperature, "rollout.temperature")
        engine.check_temperature(self.evaluation.temperature, "evaluation.temperature")
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


def with_places(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config with empty sections for what is made of its `environments`, or as it is without these.

    A stored config has these sections already. Raises ValueError for a config that has both and is no stored one.
    """
    environment = content.get("environment")
    is_stored = isinstance(environment, Mapping) and environment.get("name") == SEVERAL
    if not content.get("environments"):
        if is_stored:
            raise ValueError(f"environment.name: {SEVERAL} is made of `environments`; write these")
        return dict(content)
    both = [name for name in MADE_OF_SEVERAL if content.get(name) is not None and not is_stored]
    if both:
        raise ValueError(
            f"{', '.join(both)}: with `environments` each environment has its own, such as "
            f"environments.NAME.{both[0]}; move it there"
        )
    places = {"environment": {"name": SEVERAL}, "tasks": {"source": "environments", "members": {}}, "reward": {}}
    return {**content, **places}


def sections_of(members: Mapping[str, MemberConfig]) -> dict[str, Section]:
    """Return the sections that a config with these environments has, by their names.

    Raises ValueError for environments that cannot be trained on together.
    """
    if len(members) < 2:
        raise ValueError("environments: there is one; write `environment`, `tasks` and `reward` without this section")
    audits = {name: member.reward.audit for name, member in members.items()}
    if len(set(audits.values())) > 1:
        raise ValueError(f"environments: reward.audit holds for the whole run, and is {audits}; set it alike")
    first = next(iter(members.values())).reward
    tasks = {name: member.tasks for name, member in members.items()}
    splits = {split: sum(getattr(each.splits, split) for each in tasks.values()) for split in SplitsConfig.model_fields}
    return {
        "environment": EnvironmentConfig.of_several(
            {name: with_specification(member.environment, member.reward) for name, member in members.items()}
        ),
        "tasks": TasksConfig(source="environments", members=tasks, splits=SplitsConfig(**splits)),
        "reward": RewardConfig(
            audit=first.audit,
            members={name: member.reward for name, member in members.items()},
        ),
    }


def _not_for_several(config: Config) -> str:
    """Return which setting is only for a run with one environment, and why; empty if there is none."""
    if config.warm_start is not None and config.warm_start.path is not None:
        return "warm_start.path names a file whose rows do not say which environment they are of"
    if config.suite is not None:
        return "suite has scenarios of its own, which would take their reward from one environment"
    if named := [arm.name for arm in config.controls or () if arm.begins != "start"]:
        return f"controls: {named[0]} has the same text before every prompt, of whichever environment it is"
    if config.training.curriculum != "uniform":
        return "training.curriculum: pass_rate draws tasks by their pass rates alone, against the shares"
    if config.training.max_num_gen_batches > 1:
        return "training.max_num_gen_batches above 1 replaces tasks by any others, against the shares"
    return ""
