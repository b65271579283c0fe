"""Bills of what judges were asked: for one score, in whichever thread or task that happens, and for a whole stage."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, Protocol, TypeVar

from rlft.types import Judging, add_judging

if TYPE_CHECKING:
    from dataclasses import Field


class Billed(Protocol):
    """A report that says what judges were asked for it."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def judging(self) -> Judging | None:
        """What judges were asked; `None` if none was."""
        ...


Arguments = ParamSpec("Arguments")
Made = TypeVar("Made", bound=Billed)


class Bill:
    """Adds up what judges were asked for one score, from any number of threads; `total` is `None` before the first."""

    def __init__(self) -> None:
        self.total: Judging | None = None
        self._lock = threading.Lock()

    def add(self, judging: Judging) -> None:
        """Add what a judge was asked."""
        with self._lock:
            self.total = add_judging((self.total, judging))


_OPEN: ContextVar[Bill | None] = ContextVar("rlft_bill", default=None)


def pay_by(bill: Bill) -> None:
    """Let all that judges are asked from here on, in this task and the threads that it starts, go on this bill.

    A score has a bill of its own, whose total is charged to that of the stage when all scores of a call are made.
    """
    _OPEN.set(bill)


def charge(judging: Judging | None) -> None:
    """Put what a judge was asked on the bill of what is being made, if it was; outside of one nobody counts it."""
    if judging is not None and (bill := _OPEN.get()) is not None:
        bill.add(judging)


def billed(stage: Callable[Arguments, Made]) -> Callable[Arguments, Made]:
    """Return the function of a stage, whose report also says what judges were asked for all that it has scored."""

    @wraps(stage)
    def called(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Made:
        bill, before = Bill(), _OPEN.get()
        pay_by(bill)
        try:
            return replace(stage(*args, **kwargs), judging=bill.total)
        finally:
            _OPEN.set(before)

    return called
