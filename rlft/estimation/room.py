"""Whether a machine or its GPU has room for a run, and which settings to lower."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rlft.config import Config
from rlft.estimation.span import Span
from rlft.readiness.memory import lower_settings

Verdict = Literal["fits", "may_not_fit", "does_not_fit", "unknown"]


@dataclass(frozen=True, slots=True)
class Room:
    """Whether the `needed` bytes are `there`, of the machine or, if `on_gpu`, of the GPU.

    `lower` are the settings to change, as `name=value`, where it does not fit or may not.
    """

    verdict: Verdict
    needed: Span | None
    there: int
    on_gpu: bool
    lower: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """What is said of it to a person."""
        whose = "the GPU" if self.on_gpu else "this machine"
        if self.needed is None:
            return f"How much memory it takes is not known; {whose} has {_gib(self.there)}."
        takes = (
            f"It takes {_gib(self.needed.low)} to {_gib(self.needed.high)} of the {_gib(self.there)} that {whose} has"
        )
        end = {"fits": "it fits", "may_not_fit": "it may not fit", "does_not_fit": "it does not fit"}[self.verdict]
        way = f". Change {', '.join(self.lower)}" if self.lower else ""
        return f"{takes}: {end}{way}."


def room_for(config: Config, needed: Span | None, there: int, *, on_gpu: bool) -> Room:
    """Return whether so many bytes are `there`, with the settings of which `lower_settings` says that they help."""
    if needed is None:
        return Room("unknown", None, there, on_gpu)
    if needed.high <= there:
        return Room("fits", needed, there, on_gpu)
    lower = lower_settings(("model", "sampling", "updates"), config, on_gpu=on_gpu)
    named = tuple(f"{name}={value}" for name, value, _ in lower)
    return Room("may_not_fit" if needed.low <= there else "does_not_fit", needed, there, on_gpu, named)


def _gib(count: float) -> str:
    return f"{count / 2**30:.3g} GiB"
