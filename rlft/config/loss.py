"""The part of the section `training` that is about the loss.

It holds the choice of the loss, the settings of the shipped losses, which are derived from `rlft.losses`, and the terms
that every loss is used with.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, ValidationError, create_model, field_validator, model_validator
from pydantic.fields import FieldInfo

from rlft.config.names import is_import_path
from rlft.config.section import Section, changed
from rlft.losses import LOSSES, Loss

Level = Literal["token", "sequence"]
Correction = Literal["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"]
_Any = TypeVar("_Any", bound=Section)


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
        le=1e6,
        description="Lower bound, below 1, of the ratio of the trainer's probability to the engine's. null means none.",
    )
    importance_sampling_max: float | None = Field(
        default=3.0,
        gt=0,
        le=1e6,
        description="Upper bound, above 1, of the ratio of the trainer's probability to the engine's. null means none.",
    )


class _Choice(Section):
    """Which loss is used, and the settings of one that rlft does not ship."""

    loss_type: str = Field(
        default="dapo",
        description=f"Name of the loss: {', '.join(f'`{name}`' for name in LOSSES)}, or a class of yours as "
        "`my_loss.py:MyLoss` or `package.module:MyLoss`; see docs/guide/training.md.",
    )
    loss_kwargs: dict[str, Any] = Field(default={}, description="Settings of a loss of yours, by name.")

    @field_validator("loss_type")
    @classmethod
    def _names_a_loss(cls, name: str) -> str:
        if name not in LOSSES and not is_import_path(name):
            raise ValueError(
                f"{name!r:.80} is no loss; use one of {', '.join(LOSSES)}, or name a class of yours: my_loss.py:MyLoss "
                "or package.module:MyLoss"
            )
        return name


def _declared() -> dict[str, dict[str, FieldInfo]]:
    """Collect the settings of the shipped losses as {setting: {loss: the field that declares it}}."""
    found: dict[str, dict[str, FieldInfo]] = {}
    for name, loss in LOSSES.items():
        for setting, field in loss.model_fields.items():
            found.setdefault(setting, {})[name] = field
    return found


_DECLARED = _declared()


def _merged(setting: str) -> Any:
    """Make one field of the fields with which several losses declare a setting. Raises TypeError if these differ."""
    first, *others = _DECLARED[setting].values()
    if first.is_required():
        raise TypeError(f"{setting}: the setting of a shipped loss needs a default")
    for other in others:
        if (other.annotation, other.default, other.metadata) != (first.annotation, first.default, first.metadata):
            raise TypeError(f"{setting}: two losses declare other types, bounds or defaults; give one another name")
    users: dict[str | None, list[str]] = {}
    for loss, field in _DECLARED[setting].items():
        users.setdefault(field.description, []).append(loss)
    description = " ".join(f"{', '.join(losses)}: {text}" for text, losses in users.items())
    kind = Annotated[(first.annotation, *first.metadata)] if first.metadata else first.annotation
    return kind, Field(default=first.default, description=description)


def _with_settings_of_losses(section: type[_Any]) -> type[_Any]:
    fields: dict[str, Any] = {setting: _merged(setting) for setting in _DECLARED}
    return create_model("LossSettings", __base__=section, **fields)


class LossConfig(LossTerms, _with_settings_of_losses(_Choice)):
    """The chosen loss and all settings that losses may have; a setting that the chosen one does not use is refused."""

    def shipped_loss(self) -> Loss | None:
        """Return the chosen loss with its settings; `None` if `loss_type` is an import path."""
        kind = LOSSES.get(self.loss_type)
        return kind and kind(**{name: getattr(self, name) for name in kind.model_fields})

    @model_validator(mode="after")
    def _every_setting_has_an_effect(self) -> Self:
        others = [setting for setting, losses in _DECLARED.items() if self.loss_type not in losses]
        if self.loss_type in LOSSES:
            unused = [(f"loss_type {self.loss_type}", others), (f"the shipped loss {self.loss_type}", ["loss_kwargs"])]
        else:
            unused = [(f"loss_type {self.loss_type}, whose settings stand in loss_kwargs", others)]
        if self.beta == 0:
            unused.append(("beta 0", ["kl_importance_weighted"]))
        if self.importance_sampling_correction is None:
            bounds = ["importance_sampling_min", "importance_sampling_max"]
            unused.append(("importance_sampling_correction null", bounds))
        for reason, names in unused:
            for name, value in changed(self, *names).items():
                default = type(self).model_fields[name].default
                default = "null" if default is None else default
                raise ValueError(f"{name}={value} does nothing with {reason}; leave it at its default, {default}")
        return self

    @model_validator(mode="after")
    def _its_settings_fit_together(self) -> Self:
        try:
            self.shipped_loss()
        except ValidationError as error:
            raise ValueError(error.errors()[0]["msg"].removeprefix("Value error, ")) from None
        return self

    @model_validator(mode="after")
    def _corrects_within_bounds(self) -> Self:
        low, high = self.importance_sampling_min, self.importance_sampling_max
        if low is None and high is None:
            raise ValueError(
                "importance_sampling_min and importance_sampling_max are both null, so that nothing is truncated or "
                "masked: give one of them"
            )
        if (low is not None and low >= 1) or (high is not None and high <= 1):
            raise ValueError(
                f"importance_sampling_min={low} must be below 1 and importance_sampling_max={high} above: where engine "
                "and trainer agree the ratio is 1"
            )
        return self
