"""Removes the weights of old rounds from disk; their records stay."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime
from typing import Any

from zenml.client import Client
from zenml.io import fileio
from zenml.models import StepRunResponse

from mlops.ids import PIPELINE, RETRAIN, RUN_TAG, TRAIN_REPORT
from rlft.config import KeepConfig
from rlft.seals import REMOVED, SEALED

logger = logging.getLogger(__name__)


class Retention:
    """Removes weights and optimizer state of rounds that `policy.keep` does not name.

    What resuming and the final evaluation need always stays: the policy that training starts from, the newest, the
    best. So do those that another run has, too. Running the same config again needs no other. A changed one may need a
    removed policy after all: then `forget_removed` makes ZenML train it again.
    """

    def __init__(self, keep: KeepConfig) -> None:
        self._keep = keep
        self._stored: dict[int, Any] = {}

    def keep(self, policy: Any, round: int, *, best: int) -> None:
        """Note the policy after `round` rounds, and remove what is no longer kept; `best` is a number of rounds too."""
        self._stored[round] = policy
        newest = sorted(self._stored)[-self._keep.last :]
        for number in list(self._stored):
            on_schedule = self._keep.every and number % self._keep.every == 0
            if number in newest or number == best or on_schedule:
                continue
            self._remove(self._stored.pop(number))

    def _remove(self, artifact: Any) -> None:
        if others := _other_runs(artifact):
            logger.debug("the weights in %s stay: %s use them, too", artifact.uri, others)
            return
        folder = os.path.join(artifact.uri, "policy")
        try:
            if names := _large_files(folder):
                with fileio.open(os.path.join(artifact.uri, REMOVED), "w"):
                    pass
            for name in names:
                fileio.remove(name)
        except OSError as cause:
            logger.warning("could not remove old weights in %s: %s", folder, cause)


def _other_runs(artifact: Any) -> list[str]:
    """Return the tags of all runs that have an artifact if they are more than one.

    Several runs have it where one took it from the cache of another. That may go on yet, be resumed, or take another of
    these policies for the best; each run knows its own needs alone. All attempts at a run share one tag.
    """
    tags = [tag.name for tag in Client().get_artifact_version(artifact.id).tags]
    found = [tag for tag in tags if tag.startswith(f"{RUN_TAG}=")]
    return found if len(found) > 1 else []


def _large_files(folder: str) -> list[str]:
    """Return the files of weights and optimizer state in a policy folder."""
    return [
        os.path.join(path, name)
        for path in (folder, os.path.join(folder, "model"))
        if fileio.isdir(path)
        for name in map(str, fileio.listdir(path))
        if name.endswith(".safetensors")
    ]


def forget_removed() -> None:
    """Stop ZenML from serving steps whose policy has lost its weights, so that the next run trains them again.

    Every run that holds such a result is gone through: a cached step of one run is a source for the next.
    """
    client = Client()
    runs = [run for name in (PIPELINE, RETRAIN) for run in client.list_pipeline_runs(pipeline=name, size=1000)]
    for run in runs:
        for step in client.list_run_steps(pipeline_run_id=run.id, size=1000):
            if _trains(step) and lacks_weights(client.get_run_step(step.id)):
                # ZenML's times are in UTC, without a zone.
                client.update_step_run(step.id, cache_expires_at=datetime.now(UTC).replace(tzinfo=None))


def lacks_weights(step: StepRunResponse) -> bool:
    """Return whether a step has trained a policy whose weights are gone; one that made no policy has lost none."""
    return _trains(step) and any(weights_removed(artifact.uri) for artifact in step.outputs.get("policy", []))


def _trains(step: StepRunResponse) -> bool:
    return step.name.startswith(TRAIN_REPORT.step)


def weights_removed(uri: str) -> bool:
    """Return whether the policy at this address has neither weights nor optimizer state, whoever has removed them."""
    return not _large_files(os.path.join(uri, "policy"))


def removed_by_keep(uri: str) -> bool:
    """Return whether `policy.keep` has removed the weights of the policy at this address, as far as can be known.

    Of one without a seal, which an earlier version has stored, nobody knows who did it.
    """
    known = fileio.exists(os.path.join(uri, SEALED))
    return weights_removed(uri) and (not known or fileio.exists(os.path.join(uri, REMOVED)))
