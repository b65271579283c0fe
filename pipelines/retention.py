"""Which rounds keep their weights on disk: old ones lose theirs, their records stay."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime
from typing import Any

from zenml.client import Client
from zenml.io import fileio

from rlft.config import KeepConfig

logger = logging.getLogger(__name__)


class Retention:
    """Removes weights and optimizer state of rounds that `policy.keep` does not name.

    What resuming and the final evaluation need always stays: the first policy, the newest, the best. The step that made
    a removed policy no longer serves as a cached result, so a later run that needs the policy trains it again, from
    cached rollouts.
    """

    def __init__(self, keep: KeepConfig) -> None:
        self._keep = keep
        self._stored: dict[int, Any] = {}

    def keep(self, policy: Any, round: int, *, best: int) -> None:
        """Note the policy artifact of this round, and remove what is no longer kept."""
        self._stored[round] = policy
        newest = sorted(self._stored)[-self._keep.last :]
        for number in list(self._stored):
            on_schedule = self._keep.every and number % self._keep.every == 0
            if number in newest or number == best or on_schedule:
                continue
            self._remove(self._stored.pop(number))

    def _remove(self, artifact: Any) -> None:
        folder = os.path.join(artifact.uri, "policy")
        try:
            for name in _large_files(folder):
                fileio.remove(name)
            _expire(artifact)
        except OSError as cause:
            logger.warning("could not remove old weights in %s: %s", folder, cause)


def _large_files(folder: str) -> list[str]:
    """Weights and optimizer state in a policy folder; records and tokenizer stay."""
    return [
        os.path.join(path, name)
        for path in (folder, os.path.join(folder, "model"))
        if fileio.isdir(path)
        for name in map(str, fileio.listdir(path))
        if name.endswith(".safetensors")
    ]


def _expire(artifact: Any) -> None:
    """Stop ZenML from serving the step that made this artifact from its cache."""
    producer = Client().get_artifact_version(artifact.id).producer_step_run_id
    if producer is not None:
        Client().update_step_run(producer, cache_expires_at=datetime.now(UTC).replace(tzinfo=None))
