"""Decides once more on the policy of a run that is over: plans the attempt at the run that does so.

It is the pipeline `train` again, of which all is kept but the evaluations, the champion, the decision and the
registration: so promotion is the same code, and the same record, as at the end of a run. What was evaluated before
comes from the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zenml.models import PipelineRunResponse

from mlops.home.folder import Home
from mlops.ids import EVALUATION
from mlops.registry.client import current_champion
from mlops.runs.finding import finished_steps, name_of, resumable_attempt, steps_before_decision
from mlops.runs.policies import stored_policy
from mlops.runs.results import stored_tasks
from mlops.runs.resuming import Resumed, resumed
from mlops.runs.shared import SharedRun
from mlops.tracking.address import HOME, answering, tracking_address
from pipelines.gate import check_slices
from rlft.errors import ConfigError, RlftError

_SETTINGS = "promotion."
_FIXED = "promotion.name"


@dataclass(frozen=True, slots=True)
class Plan:
    """How a run is decided on once more: from which attempt, with what, and which of its steps are kept.

    `champion` is the number of the version that makes a decision needless, as it is the champion and has the weights of
    the run's best policy; `None` if there is none.
    """

    attempt: PipelineRunResponse
    again: Resumed
    kept: set[str]
    champion: str | None


def plan_promotion(home: Home, run: PipelineRunResponse, overrides: Sequence[str], tracking_uri: str | None) -> Plan:
    """Return how to decide on a run once more, with `overrides` of the section `promotion`. Nothing is begun yet.

    `tracking_uri` is the address of MLflow, `None` for that of the home. Raises ConfigError for another override,
    RlftError if the run goes on or has evaluated no trained policy, and TrackerError if MLflow does not answer.
    """
    _check(overrides)
    attempt, name = resumable_attempt(home, run, finished=True), name_of(run)
    evaluated = EVALUATION.step_id("trained")
    if evaluated not in finished_steps(attempt):
        raise RlftError(
            "the run has evaluated no trained policy, so there is nothing to decide on",
            where=name,
            fix=f"`rlft resume {name}` goes on with it, unless it has ended without training (`rlft runs`)",
        )
    again = resumed(attempt, tracking_uri, overrides, anew=True)
    policy = stored_policy(home, name, "best", None)
    if (tasks := stored_tasks(SharedRun(home, attempt))) is not None:
        check_slices(tasks.split("gate"), again.config)  # before there is an attempt that would fail by it
    address = tracking_address(tracking_uri or HOME)
    with answering(address):
        champion = current_champion(address, again.config.registry_name)
    own = champion is not None and champion.weights_hash == policy.run_metadata.get("weights_hash")
    return Plan(attempt, again, steps_before_decision(attempt), champion.version if champion and own else None)


def _check(overrides: Sequence[str]) -> None:
    for override in overrides:
        key = override.partition("=")[0]
        if not key.startswith(_SETTINGS) or key.startswith(_FIXED):
            raise ConfigError(
                f"{key} cannot be changed for a run that is over",
                where="--set",
                fix="set rules such as promotion.min_improvement=0.01; `rlft run` trains with other settings",
            )
