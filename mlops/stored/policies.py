"""The policies of a run by name: the best one, the one that training started from, and that after a round."""

from __future__ import annotations

from typing import Any

from zenml.client import Client

from mlops.home.folder import Home
from mlops.ids import TRAIN_REPORT, round_name, round_of
from mlops.runs.finding import attempts_of, find_run
from mlops.stored.retention import removed_by_keep
from mlops.stored.summaries import stored_summary
from mlops.summary.file import read_summary
from mlops.summary.replays import read_replay
from rlft.errors import RlftError, WeightsRemovedError

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
        best = _best_round(home, found, attempts)
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


def _best_round(home: Home, run: Any, attempts: list[Any]) -> int | None:
    """Return after which round the policy was best, as the home says it, or the MLflow of a run on a stack."""
    own = (read_summary(home, str(attempt.id)) for attempt in attempts)
    replays = (read_replay(home, str(attempt.id)) or {} for attempt in attempts)
    best = [each.best_round for each in own if each] + [each.get("best_round") for each in replays]
    if (known := next((each for each in best if each is not None), None)) is not None:
        return known
    told = stored_summary(home, run)
    return told.best_round if told else None


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


def kept_rounds(run: Any) -> list[int]:
    """Return after how many rounds the weights of a run's policy are still there, of its newest rounds."""
    return _with_weights(attempts_of(run))


def _with_weights(attempts: list[Any]) -> list[int]:
    kept = []
    for number, step in list(_rounds(attempts).items())[-_LOOKED_AT:]:
        versions = Client().get_run_step(step.id).outputs.get(_OUTPUT)
        if versions and not removed_by_keep(versions[0].uri):
            kept.append(number)
    return kept


def _kept(attempts: list[Any]) -> str:
    """Say after how many rounds the weights of a run's policy are still there, of the newest rounds."""
    kept = list(map(str, _with_weights(attempts)))
    if not kept:
        return "none of them has its weights"
    *others, last = kept
    listed = f"{', '.join(others)} and {last}" if others else last
    return f"weights are kept after {listed} round{'s' * (kept != ['1'])}"
