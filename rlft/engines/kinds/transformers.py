"""Sampling with the trainer's own model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlft.engines.kinds import EngineKind

if TYPE_CHECKING:
    from rlft.config import EngineSettings
    from rlft.engines.base import Engine


class Transformers(EngineKind):
    """The trainer's own model, so that there is one copy of the weights."""

    name = "transformers"
    loads_weights = False

    def create(self, settings: EngineSettings, batch_size: int) -> Engine:
        """Return an engine."""
        from rlft.engines.transformers_engine import TransformersEngine

        return TransformersEngine(batch_size)
