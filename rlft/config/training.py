"""The sections `training`, `budget` and `monitors` of a config: how is trained, what that may take, what is watched.

Settings have the names of TRL. Those of shipped losses and algorithms are derived from the classes that declare them.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, ValidationError, create_model, field_validator, model_validator
from pydantic.fields import FieldInfo

from rlft.config.section import MOST, Plain, Section, Text, is_import_path, refuse_changed

Level = Literal["token", "sequence"]
Correction = Literal["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"]
_Any = TypeVar("_Any", bound=Section)
# By name, as the files declare settings and import what trains only where they use it: code that reads a config, such
# as a reward's, does not depend on that.
LOSSES: Mapping[str, Any] = import_module("rlft.training.losses").LOSSES
ALGORITHMS: Mapping[str, Any] = {
    name: kind
    for name, kind in import_module("rlft.training.algorithms").ALGORITHMS.items()
    if kind.data != "demonstrations"
}
_WITH_OWN_LOSSES = {name: kind for name, kind in ALGORITHMS.items() if kind.loss_types}


class LossTerms(Section):
    """Settings of the terms that every loss is used with: the ratio, the KL, the correction for the engine."""

    importance_sampling_level: Level = Field(
        default="token",
        description="Level of the importance ratio: `token` makes one per token, `sequence` one per rollout, which "
        "with `loss_type: grpo` is GSPO.",
    )
    beta: float = Field(
        default=0.0, ge=0, le=1000, description="Weight of the KL to the reference policy. With 0 no reference is kept."
    )
    kl_importance_weighted: bool = Field(
        default=False,
        description="Whether the KL is weighted by the importance ratio, which makes its gradient unbiased.",
    )
    importance_sampling_correction: Correction | None = Field(
        default=None,
        description="How samples are weighted by the ratio of the trainer's probability to the engine's, per token or "
        "per sequence: a ratio out of bounds is moved to the bound (`truncate`) or gets the weight 0 (`mask`). null "
        "means no correction.",
    )
    importance_sampling_min: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Lower bound of the ratio of the trainer's probability to the engine's. null means none.",
    )
    importance_sampling_max: float = Field(
        default=3.0,
        gt=1,
        le=1e6,
        description="Upper bound of the ratio of the trainer's probability to the engine's.",
    )


class _Choice(Section):
    """Which loss is used, and the settings of one that rlft does not ship."""

    loss_type: str = Field(
        default="dapo",
        description=f"Name of the loss: {', '.join(f'`{name}`' for name in LOSSES)}, or a class of yours as "
        "`my_loss.py:MyLoss` or `package.module:MyLoss`; see docs/guide/training.md."
        + "".join(f" With {name}: {', '.join(kind.loss_types)}." for name, kind in _WITH_OWN_LOSSES.items()),
    )
    loss_kwargs: dict[str, Plain] = Field(default={}, description="Settings of a loss of yours, by name.")


_Fields = Mapping[str, Mapping[str, FieldInfo]]
"""The settings that shipped classes declare: {setting: {class: the field that declares it}}."""


def _declared(classes: Mapping[str, Any]) -> dict[str, dict[str, FieldInfo]]:
    found: dict[str, dict[str, FieldInfo]] = {}
    for name, kind in classes.items():
        for setting, field in kind.model_fields.items():
            found.setdefault(setting, {})[name] = field
    return found


_DECLARED, _OF_ALGORITHMS = _declared(LOSSES), _declared(ALGORITHMS)


def _merged(fields: Mapping[str, FieldInfo]) -> Any:
    """Make one field of those with which several classes declare a setting; they differ in their descriptions."""
    first = next(iter(fields.values()))
    users: dict[str | None, list[str]] = {}
    for name, field in fields.items():
        users.setdefault(field.description, []).append(name)
    description = " ".join(f"{', '.join(names)}: {text}" for text, names in users.items())
    kind = Annotated[(first.annotation, *first.metadata)] if first.metadata else first.annotation
    return kind, Field(default=first.default, description=description)


def _with_settings(section: type[_Any], declared: _Fields) -> type[_Any]:
    fields: dict[str, Any] = {setting: _merged(found) for setting, found in declared.items()}
    return create_model("DeclaredSettings", __base__=section, **fields)


class LossConfig(LossTerms, _with_settings(_Choice, _DECLARED)):
    """The chosen loss and all settings that losses may have; a setting that the chosen one does not use is refused."""

    def shipped_loss(self) -> Any:
        """Return the chosen loss with its settings; `None` if `loss_type` is an import path, or of an algorithm."""
        kind = LOSSES.get(self.loss_type)
        return kind and kind(**{name: getattr(self, name) for name in kind.model_fields})

    @model_validator(mode="after")
    def _every_setting_has_an_effect(self) -> Self:
        unused = [setting for setting, losses in _DECLARED.items() if self.loss_type not in losses]
        if is_import_path(self.loss_type):
            refuse_changed(self, unused, f"loss_type {self.loss_type}, whose settings stand in loss_kwargs")
        else:
            refuse_changed(self, [*unused, "loss_kwargs"], f"loss_type {self.loss_type}")
        return self

    @model_validator(mode="after")
    def _its_settings_fit_together(self) -> Self:
        try:
            self.shipped_loss()
        except ValidationError as error:
            raise ValueError(error.errors()[0]["msg"].removeprefix("Value error, ")) from None
        return self


Baseline = Literal["group_mean", "leave_one_out"]
Scale = Literal["group", "batch", "none"]
Curriculum = Literal["uniform", "pass_rate"]


class PassRatesConfig(Section):
    """How the pass rates of tasks are estimated where tasks are drawn by them (`training.curriculum: pass_rate`)."""

    half_life: float = Field(
        default=20.0,
        gt=0,
        le=MOST,
        description="Rounds after which an attempt counts half, as the policy that made it is no longer the policy.",
    )
    retire_at: float = Field(
        default=0.9,
        gt=0.5,
        le=1,
        description="A task whose expected pass rate is at least this (0.5 to 1) is taken for solved and not drawn. It "
        "comes back when the attempts that showed it have lost their weight. 1 means that none is retired.",
    )


class RoundsConfig(Section):
    """Settings of the rounds, the optimizer and the advantages."""

    rounds: int = Field(
        default=20, ge=1, le=MOST, description="Number of rounds. A round samples, scores and trains once."
    )
    lag: Literal[0, 1] = Field(
        default=0,
        description="How many rounds of training the policy that samples a round is behind the one that is trained on "
        "it. With 1 each round is sampled while the one before it is trained on. The loss's ratio is then that to the "
        "policy before the round, and samples are not weighted unless importance_sampling_correction is set; see "
        "docs/guide/lag.md.",
    )
    tasks_per_round: int = Field(default=32, ge=1, le=MOST, description="Tasks that are attempted in each round.")
    curriculum: Curriculum = Field(
        default="uniform",
        description="How the tasks of a round are drawn: each as often as any other (`uniform`), or in proportion to "
        "the expected p (1 - p) of its pass rate p, so that those of middling difficulty come most (`pass_rate`).",
    )
    pass_rates: PassRatesConfig = PassRatesConfig()
    max_num_gen_batches: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="Samplings in one round at most. Above 1, other tasks are sampled in place of those whose rewards "
        "are all equal, which teach nothing (DAPO's dynamic sampling, under verl's name). 1 means that none is "
        "replaced.",
    )
    num_generations: int = Field(
        default=8, le=10_000, description="Rollouts of each task, which form a group. At least 2."
    )
    updates_per_round: int = Field(
        default=1,
        ge=1,
        le=MOST,
        description="Optimizer steps in each pass over the rollouts of a round. The rollouts of every group are dealt "
        "out to them.",
    )
    learning_rate: float = Field(default=1e-6, gt=0, le=1000, description="Learning rate of AdamW after the warm-up.")
    warmup_updates: int = Field(
        default=0, ge=0, le=MOST, description="Optimizer steps over which the learning rate rises linearly from 0."
    )
    lr_scheduler_type: Literal["constant", "linear", "cosine"] = Field(
        default="constant",
        description="What the learning rate does after the warm-up: it stays (`constant`), or falls to 0 by the end "
        "of the last round.",
    )
    weight_decay: float = Field(default=0.0, ge=0, le=10, description="Weight decay of AdamW.")
    adam_beta1: float = Field(
        default=0.9, ge=0, lt=1, description="Decay rate of AdamW's mean of gradients (first moment)."
    )
    adam_beta2: float = Field(
        default=0.999, ge=0, lt=1, description="Decay rate of AdamW's mean of squared gradients (second moment)."
    )
    max_grad_norm: float = Field(
        default=1.0,
        gt=0,
        le=1e9,
        description="Largest norm of a gradient. One with a larger norm is scaled down to it.",
    )
    num_iterations: int = Field(default=1, ge=1, le=1000, description="Number of passes over the rollouts of a round.")
    advantage: Baseline = Field(
        default="group_mean",
        description="What a reward is compared with: the mean of its group (`group_mean`), or the mean of the others "
        "in its group (`leave_one_out`, as in RLOO, which needs `scale_rewards: none`).",
    )
    scale_rewards: Scale = Field(
        default="group",
        description="What advantages are divided by: the standard deviation of rewards in the `group`, that in the "
        "whole `batch`, or `none` (Dr. GRPO).",
    )
    mask_truncated_completions: bool = Field(
        default=False,
        description="Whether rollouts that a limit cut off are left out of training. They still count in their "
        "group's mean.",
    )
    per_step_token_budget: int | None = Field(
        default=None,
        ge=1,
        le=100 * MOST,
        description="Tokens that the trainer encodes at once. null means 16,384 on a GPU, and on a CPU 3,072, or as "
        "many as the largest group has up to 16,384.",
    )
    gradient_checkpointing: bool = Field(
        default=False, description="Whether layers are computed twice to save memory, which takes longer."
    )
    max_kl: float = Field(
        default=0.55,
        gt=0,
        le=1e9,
        description="Largest KL of the policy after an update to the one that sampled, or with a lag to the one before "
        "the round, in nats per token. Beyond it the round is undone and training stops.",
    )

    @model_validator(mode="after")
    def _groups_can_be_compared(self) -> Self:
        if self.num_generations < 2:
            raise ValueError(
                f"num_generations={self.num_generations} has no group to compare with; use at least 2 "
                "(8 or 16 are usual)"
            )
        if self.updates_per_round > self.tasks_per_round:
            raise ValueError(
                f"updates_per_round={self.updates_per_round} exceeds tasks_per_round={self.tasks_per_round}: "
                "an update needs at least as many rollouts as a group has; lower updates_per_round"
            )
        if self.advantage == "leave_one_out" and self.scale_rewards != "none":
            raise ValueError(
                f"advantage leave_one_out is not divided by a standard deviation, scale_rewards={self.scale_rewards} "
                "would be; set scale_rewards to none, or advantage to group_mean"
            )
        return self


class _Algorithm(Section):
    """Which algorithm trains."""

    algorithm: str = Field(
        default="grpo",
        description=f"What the policy learns by: {', '.join(f'`{name}`' for name in ALGORITHMS)}; see "
        "docs/guide/training.md. Some settings have another default with another algorithm.",
    )

    @field_validator("algorithm")
    @classmethod
    def _is_shipped(cls, name: str) -> str:
        if name not in ALGORITHMS:
            raise ValueError(f"{name!r:.80} is no algorithm; use one of {', '.join(ALGORITHMS)}")
        return name


class TrainingConfig(LossConfig, RoundsConfig, _with_settings(_Algorithm, _OF_ALGORITHMS)):
    """Settings of the training rounds: the algorithm, the optimizer, the advantages, the loss."""

    @model_validator(mode="before")
    @classmethod
    def _has_the_defaults_of_its_algorithm(cls, content: Any) -> Any:
        kind = ALGORITHMS.get(content.get("algorithm", "")) if isinstance(content, Mapping) else None
        return content if kind is None else {**kind.defaults, **content}

    @model_validator(mode="after")
    def _suits_its_algorithm(self) -> Self:
        kind = ALGORITHMS[self.algorithm]
        unused = [*kind.unused, *(name for name, users in _OF_ALGORITHMS.items() if self.algorithm not in users)]
        refuse_changed(self, unused, f"algorithm {self.algorithm}")
        if self.loss_type not in (kind.loss_types or LOSSES) and (
            kind.loss_types or not is_import_path(self.loss_type)
        ):
            known = ", ".join(kind.loss_types or (*LOSSES, "or a class of yours: my_loss.py:MyLoss"))
            raise ValueError(f"loss_type {self.loss_type} is none of algorithm {self.algorithm}; use one of {known}")
        kind(**{name: getattr(self, name) for name in kind.model_fields}).check(self)
        return self

    def without_lag(self) -> TrainingConfig:
        """Return the settings of a round by itself, which does not depend on when it was sampled."""
        return self.model_copy(update={"lag": 0})


_MOST_MINUTES = 60.0 * 24 * 366
_MOST_TOKENS = 10**13


class BudgetConfig(Section):
    """What may be spent until training ends. null means without a bound.

    A round that would pass a bound is not begun: training ends, and the best validated policy is evaluated, decided on
    and registered as after the last round. At least one round is trained. What comes after training is not counted.
    """

    minutes: float | None = Field(
        default=None,
        gt=0,
        le=_MOST_MINUTES,
        description="Wall minutes from the start of the run to the end of training, validations included. A round that "
        "is taken from the cache counts with the minutes that it took.",
    )
    gpu_hours: float | None = Field(
        default=None,
        gt=0,
        le=1e6,
        description="The same time in hours, times the number of GPUs that the run can see, or that its trainers "
        "have in a cluster (`distributed.address`), whichever is larger.",
    )
    tokens: int | None = Field(
        default=None, ge=1, le=_MOST_TOKENS, description="Tokens that the policy samples in all rounds."
    )


Action = Literal["off", "note", "warn", "stop"]


class MonitorsConfig(Section):
    """What is watched after each round, and what is done when it is seen ([monitors](monitors.md)).

    `off` does not look, `note` writes it into the log and the summary, `warn` also puts it before the result, and
    `stop` ends training: the best validated policy is evaluated, decided on and registered, and not promoted. Each is
    raised without cause in at most 1 % of runs whose rewards do not change.
    """

    honest: Text | None = Field(
        default=None,
        description="Part of the reward that says what counts, best one of weight 0 (a metric), such as `right`. The "
        "best round is then the one that is best by it. null means the share of solved attempts, which a loophole "
        "may solve too: then no monitor ends training by it.",
    )
    overoptimization: Action = Field(
        default="stop",
        description="The reward rises on validation, and `honest` falls or stays (Gao et al. 2023). Without `honest` "
        "`stop` means `warn`.",
    )
    reward_gap: Action = Field(
        default="warn", description="The same on the attempts that are trained on, after each round."
    )
    unseen_tasks: Action = Field(
        default="warn", description="More train tasks are solved, and validation does not share it: they are learnt."
    )
    length_drift: Action = Field(
        default="note", description="Attempts become twice as long, or half, and validation has not risen."
    )
    repetition: Action = Field(
        default="warn", description="Attempts repeat their own words more and more, and validation has not risen."
    )
    entropy_collapse: Action = Field(
        default="warn", description="The policy hardly tries anything else any more, and validation has not risen."
    )
    tool_spam: Action = Field(
        default="warn", description="Attempts call tools twice as often, and validation has not risen."
    )
    identical_completions: Action = Field(
        default="warn", description="Nearly all attempts are the same, whatever the task, where tasks need several."
    )
    known_attacks: Action = Field(
        default="warn",
        description="A tenth of the attempts are an attack that the audit knows ([audit](audit.md)), and are paid.",
    )

    unscored_attempts: Action = Field(
        default="warn",
        description="The reward fails on a twentieth of the attempts, which leave their groups without a score.",
    )

    def actions(self) -> dict[str, Action]:
        """Return {monitor: its action}. Without `honest` nothing stops a run by what a loophole solves, too."""
        found = {name: getattr(self, name) for name in type(self).model_fields if name != "honest"}
        if self.honest is None and found["overoptimization"] == "stop":
            found["overoptimization"] = "warn"
        return found
