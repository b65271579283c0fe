"""The best constant answer, a control of every run."""

from __future__ import annotations

from typing import ClassVar

from rlft.evaluation.arms.base import Arm


class Constant(Arm):
    """Says the same to every task, or nothing (`rlft.evaluation.searches.constant`)."""

    name: ClassVar[str] = "constant"
    label: ClassVar[str] = "best constant answer"
    in_every_run: ClassVar[bool] = True
