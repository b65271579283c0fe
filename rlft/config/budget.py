"""The section `budget` of a config: what training may take."""

from __future__ import annotations

from pydantic import Field

from rlft.config.section import Section

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
        description="The same time in hours, times the number of GPUs that the run can see, or that its trainers and "
        "engines have in a cluster (`distributed.address`), whichever is larger.",
    )
    tokens: int | None = Field(
        default=None, ge=1, le=_MOST_TOKENS, description="Tokens that the policy samples in all rounds."
    )
