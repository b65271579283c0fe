"""Kinds of engines: what an engine can do, what it needs, and how it is made; each is one class.

Every class with a `name` in a file of this room can be chosen by `rollout.engine`. The config imports the files, and is
checked without torch: so they import what samples where they make it.
"""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from rlft.errors import EngineError
from rlft.types.declared import Declared, shipped

if TYPE_CHECKING:
    from rlft.config import EngineSettings
    from rlft.engines.base import Engine


class EngineKind(Declared, ABC):
    """Says what an engine can do. Its fields are settings, given as `rollout.engine_kwargs`.

    Attributes:
        loads_weights: Whether it has a copy of the weights, which every policy is pushed into. Else it samples with the
            trainer's own model.
        adapters: Whether it samples from a policy that is an adapter.
        restarts: Whether one can be started for any model. Else it is servers that hold one policy: a run's other
            models, a suite and a probe are not sampled by it.
        temperatures: The lowest and the highest temperature at which it samples, beside 0.
        needs_gpu: Whether it runs on a GPU alone.
        library: The package that it needs, if that is not one of rlft's own; `setup` says how to install it.
    """

    loads_weights: ClassVar[bool] = True
    adapters: ClassVar[bool] = True
    restarts: ClassVar[bool] = True
    temperatures: ClassVar[tuple[float, float]] = (0.01, 100.0)
    needs_gpu: ClassVar[bool] = False
    library: ClassVar[str] = ""
    setup: ClassVar[str] = ""

    @abstractmethod
    def create(self, settings: EngineSettings, batch_size: int) -> Engine:
        """Return an engine without a policy, for `batch_size` rollouts at a time; it starts with its first policy."""

    def on(self, device_type: str) -> EngineKind:
        """Return the kind that samples where the policy is on this type of device: `auto` stands for others."""
        del device_type
        return self

    def check_temperature(self, temperature: float, where: str) -> None:
        """Raise ValueError unless it samples at this temperature, which is the setting `where`."""
        low, high = self.temperatures
        if temperature != 0 and not low <= temperature <= high:
            raise ValueError(
                f"{where}={temperature:g}: {self.name} samples at {low:g} to {high:g}; set it so, or rollout.engine to "
                "transformers"
            )

    def check(self, settings: EngineSettings) -> None:
        """Raise ValueError for settings that it cannot be made with."""

    def check_here(self, settings: EngineSettings) -> None:
        """Raise EngineError if it could not be started on this machine. Nothing is imported or started for that."""
        del settings
        self.check_library()

    def check_library(self) -> None:
        """Raise EngineError if the package that it needs is not installed."""
        if self.library and not is_installed(self.library):
            raise EngineError(
                f"{self.library} is not installed",
                where="rollout.engine",
                fix=f"{self.setup}, or set rollout.engine: transformers",
            )

    def most_tokens(self, settings: EngineSettings) -> int | None:
        """Return how many tokens a conversation may have with these settings; `None` if the model alone limits it."""
        del settings


def is_installed(library: str) -> bool:
    """Return whether a package can be imported, without importing it."""
    spec = importlib.util.find_spec(library)
    return spec is not None and spec.origin is not None  # a folder of that name would have no origin


ENGINES: dict[str, type[EngineKind]] = shipped(__name__, EngineKind)
"""The shipped kinds, by name."""
