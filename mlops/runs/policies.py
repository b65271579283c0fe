"""The policies of a run by name, and which of them keep their weights: those of old rounds are removed from disk."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime
from typing import Any

from zenml.client import Client
from zenml.io import fileio
from zenml.models import StepRunResponse

from mlops.home.folder import Home
from mlops.ids import PIPELINE, RETRAIN, RUN_TAG, TRAIN_REPORT, round_name, round_of
from mlops.runs.finding import attempts_of, find_run, folder_of
from mlops.runs.shared import stored_summary
from mlops.summary.file import read_result
from rlft.config import KeepConfig
from rlft.errors import RlftError, WeightsRemovedError
from rlft.files import REMOVED

_OUTPUT = "policy"
_LOOKED_AT = 100  # rounds: each takes ZenML some milliseconds, and the older ones are removed first


def stored_policy(home: Home, run: str, policy: str, round: int | None) -> Any:
    """Return the artifact of a run's policy: `best`, `base`, `start`, or that after so many rounds (`round`).

    All attempts at the run are looked through, the newest first. Raises RlftError if there is no such policy (yet), and
    WeightsRemovedError if `policy.keep` has removed its weights. Weights that are lost are a damage, which loading
    tells.
    """
    found = find_run(run)
    attempts = attempts_of(found)
    where = f"{run}:{policy if round is None else f'round={round}'}"
    if policy == "best":
        best = _best_round(home, found)
        if best is None:
            raise RlftError(
                "the run has no best policy yet: it has not come to its end, or its summary is lost",
                where=where,
                fix=f"name a round, such as {run}:round=1, or `rlft resume` the run",
            )
        policy, round = ("start", None) if best == 0 else ("round", best)
    steps = {"base": ["initialize_policy"], "start": ["warm_start", "initialize_policy"]}
    names = [TRAIN_REPORT.step_id(round_name(round - 1))] if round is not None else steps[policy]
    for name in names:
        for attempt in attempts:
            if artifact := _output(attempt.id, name):
                if removed_by_keep(artifact.uri):
                    raise WeightsRemovedError(
                        "the weights of this policy were removed by policy.keep",
                        where=where,
                        fix=f"name a round that was kept: {_kept(attempts)}",
                    )
                return artifact
    rounds = _rounds(attempts)
    there = f"it has {len(rounds)} round{'s' * (len(rounds) != 1)}" if rounds else "it has no round yet"
    fix = f"name another one: {_kept(attempts)}" if rounds else "name another one"
    raise RlftError(f"the run has no such policy: {there}", where=where, fix=fix)


def _best_round(home: Home, run: Any) -> int | None:
    """Return after which round the policy of a run or of a replay was best."""
    if (told := stored_summary(home, run)) is not None:
        return told.best_round
    return (read_result(folder_of(home, run)) or {}).get("best_round")


def _output(run_id: Any, step: str) -> Any:
    for found in Client().list_run_steps(pipeline_run_id=run_id, name=step, size=1):
        if versions := Client().get_run_step(found.id).outputs.get(_OUTPUT):
            return versions[0]
    return None


def _rounds(attempts: list[Any]) -> dict[int, Any]:
    """Return the steps that have trained a round, by how many rounds were done then; the newest attempt counts."""
    steps = {}
    for attempt in reversed(attempts):
        for step in Client().list_run_steps(
            pipeline_run_id=attempt.id, name=f"startswith:{TRAIN_REPORT.step_id('r')}", size=10_000
        ):
            if step.status.is_successful and (number := round_of(step.name)) is not None:
                steps[number + 1] = step
    return dict(sorted(steps.items()))


def noted_weights(artifact: Any) -> str:
    """Return the hash of a policy's weights as ZenML has noted it: those of a policy from the cache may be removed."""
    # An output of a step of a run that goes on cannot be asked itself.
    return str(Client().get_artifact_version(artifact.id).run_metadata["weights_hash"])


def _kept(attempts: list[Any]) -> str:
    """Say after how many rounds the weights of a run's policy are still there, of the newest rounds."""
    kept = []
    for number, step in list(_rounds(attempts).items())[-_LOOKED_AT:]:
        versions = Client().get_run_step(step.id).outputs.get(_OUTPUT)
        if versions and not removed_by_keep(versions[0].uri):
            kept.append(number)
    return (
        f"weights are kept after so many rounds: {', '.join(map(str, kept))}"
        if kept
        else "none of them has its weights"
    )


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
    """Return whether `policy.keep` has removed the weights of the policy at this address: it leaves a mark."""
    return fileio.exists(os.path.join(uri, REMOVED)) and weights_removed(uri)
