"""The section `environments` of a config: several environments in one run, and what is made of them.

A config with this section has no `environment`, `tasks` and `reward` of its own. These are made of its environments
when it is read, so that whatever asks for them finds all members in one place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from rlft.config.environment import PLAIN, EnvironmentConfig, RewardConfig, with_specification
from rlft.config.section import SEVERAL, Section, check_plain_name
from rlft.config.tasks import SplitsConfig, TasksConfig

if TYPE_CHECKING:
    from rlft.config.experiment import Config

_MADE = ("environment", "tasks", "reward")  # sections that are made of `environments`


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
    if is_stored:
        return dict(content)
    if both := [name for name in _MADE if content.get(name) is not None]:
        raise ValueError(
            f"{', '.join(both)}: with `environments` each environment has its own, such as "
            f"environments.NAME.{both[0]}; move it there"
        )
    return {
        **content,
        "environment": {"name": SEVERAL},
        "tasks": {"source": "environments", "members": {}},
        "reward": {},
    }


def sections_of(members: Mapping[str, MemberConfig]) -> dict[str, Section]:
    """Return the sections that a config with these environments has, by their names.

    Raises ValueError for environments that cannot be trained on together.
    """
    if len(members) < 2:
        raise ValueError("environments: there is one; write `environment`, `tasks` and `reward` without this section")
    for name in members:
        try:
            check_plain_name(name)
        except ValueError as wrong:
            raise ValueError(f"environments: {wrong}") from None
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


def check_fits_several(config: Config) -> None:
    """Raise ValueError for settings that do not work with the `environments` of a config."""
    members = config.environments
    if wrong := _not_for_several(config):
        raise ValueError(f"{wrong}; remove it, or train on one `environment`")
    total = sum(member.share for member in members.values())
    for name, member in members.items():
        most = config.training.tasks_per_round * member.share / total
        if member.tasks.source == "reasoning_gym" and most > member.tasks.splits.train:
            raise ValueError(f"environments.{name}: its share of training.tasks_per_round exceeds tasks.splits.train")


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
