"""Makes damaged results of a run again: says which step gave one, and which steps a resume keeps.

What is made again is forgotten by the cache first, for this run and for all others. What comes after it and does not
change by it is taken from the cache.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from uuid import UUID

from zenml.client import Client
from zenml.enums import ExecutionStatus
from zenml.models import PipelineRunResponse, StepRunResponse

from mlops.ids import MADE_AGAIN
from mlops.runs.finding import finished_steps, name_of
from mlops.stored.retention import lacks_weights, weights_removed
from rlft.errors import DamagedError, RlftError, WeightsRemovedError, redo_command

_POLICIES = ("policy", "reference")  # inputs of steps


def steps_to_keep(run: PipelineRunResponse, redo: Collection[str]) -> set[str]:
    """Return the steps of a run that are not to run again when these steps are, whose results are forgotten.

    If a policy that they start from has lost its weights to `policy.keep`, the steps that trained it run again, too.
    Raises RlftError for a step that the run has not.
    """
    steps = {step.name: step for step in _steps(run)}
    for name in redo:
        if name not in steps:
            near = get_close_matches(name, steps, n=3) or list(steps)[-5:]
            raise RlftError(f"{run.name} has no step {name!r}", where="--redo", fix=f"there are: {', '.join(near)}")
    again = _with_lost_policies(steps, redo)
    anew = again | _made_again_before(steps)
    _forget(steps[name] for name in again)
    anew |= _after(steps, anew)
    return {name for name, step in steps.items() if step.status.is_successful} - anew


def steps_with_weights(run: PipelineRunResponse) -> set[str]:
    """Return the steps of an attempt that another one need not repeat where it needs all policies of its rounds.

    These are all that have finished but for those that trained policies which have lost their weights, and what comes
    after such a policy: it may be another one when it is trained again.
    """
    steps = {step.name: step for step in _steps(run)}
    lost = {name for name, step in steps.items() if lacks_weights(step)}
    return finished_steps(run) - lost - _after(steps, lost)


@contextmanager
def naming_damage(run: PipelineRunResponse) -> Iterator[None]:
    """Make the errors of damaged and of removed artifacts name this run, and the step that gave it what is damaged.

    A seal names the run that stored the artifact, which is another one where it comes from the cache.
    """
    try:
        yield
    except (DamagedError, WeightsRemovedError) as error:
        step = next((step.name for step in _steps(run) if any(_is_in(error, uri) for uri in _uris(step))), None)
        if step is None:
            raise
        if isinstance(error, DamagedError):
            raise error.of(name_of(run), step) from error
        raise WeightsRemovedError(error.what, where=error.where, fix=redo_command(name_of(run), step)) from error


def has_step(run: PipelineRunResponse | None, name: str) -> bool:
    """Return whether a run has a step of this name; `None` has none."""
    return run is not None and bool(Client().list_run_steps(pipeline_run_id=run.id, name=name, size=1))


def _steps(run: PipelineRunResponse) -> list[StepRunResponse]:
    return list(Client().list_run_steps(pipeline_run_id=run.id, size=10_000, hydrate=True))


def _outputs(step: StepRunResponse) -> set[str]:
    return {str(artifact.id) for artifacts in step.outputs.values() for artifact in artifacts}


def _inputs(step: StepRunResponse) -> set[str]:
    return {str(artifact.id) for artifacts in step.inputs.values() for artifact in artifacts}


def _uris(step: StepRunResponse) -> list[str]:
    return [artifact.uri for artifacts in step.outputs.values() for artifact in artifacts]


def _is_in(error: RlftError, uri: str) -> bool:
    return error.where == uri or error.where.startswith(f"{uri}/")


def _with_lost_policies(steps: Mapping[str, StepRunResponse], redo: Collection[str]) -> set[str]:
    """Return the steps with all that share a result with them, and with those that trained policies they need."""
    again: set[str] = set()
    waiting = set(redo)
    while waiting:
        again |= waiting
        wanted = {artifact for name in waiting for artifact in _outputs(steps[name])}
        for name in waiting:
            for kind in _POLICIES:
                policies = steps[name].inputs.get(kind, [])
                wanted |= {str(policy.id) for policy in policies if weights_removed(policy.uri)}
        waiting = {name for name, step in steps.items() if _outputs(step) & wanted} - again
    return again


def _after(steps: Mapping[str, StepRunResponse], changed: set[str]) -> set[str]:
    """Return the steps that use results of these, or results of such steps."""
    later: set[str] = set()
    artifacts = {artifact for name in changed for artifact in _outputs(steps[name])}
    while found := {name for name, step in steps.items() if _inputs(step) & artifacts} - later:
        later |= found
        artifacts |= {artifact for name in found for artifact in _outputs(steps[name])}
    return later


def _producers(step: StepRunResponse) -> set[UUID]:
    """Return the ids of the steps that stored the results of a step: itself, or that whose results it was given."""
    found = {artifact.producer_step_run_id for artifacts in step.outputs.values() for artifact in artifacts}
    return found - {None}  # type: ignore[reportReturnType]


def _forget(steps: Iterable[StepRunResponse]) -> None:
    """Let the cache forget all results that it has for these steps."""
    client = Client()
    keys = {client.get_run_step(producer).cache_key for step in steps for producer in _producers(step)}
    for key in keys - {None}:
        for step in client.list_run_steps(cache_key=key, status=ExecutionStatus.COMPLETED, size=10_000):
            client.update_step_run(step.id, cache_expires_at=MADE_AGAIN)


def _made_again_before(steps: Mapping[str, StepRunResponse]) -> set[str]:
    """Return the steps whose results another attempt was to make again: where it has done so the cache has them."""
    expired = Client().list_run_steps(cache_expired=True, status=ExecutionStatus.COMPLETED, size=10_000, hydrate=True)
    ids = {
        step.id
        for step in expired
        if step.cache_expires_at is not None and step.cache_expires_at.replace(tzinfo=None) == MADE_AGAIN
    }
    return {name for name, step in steps.items() if _producers(step) & ids}
