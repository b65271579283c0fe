"""How a run is started and resumed: whether its code is what it began with, which results are damaged.

A resume must not mix two codes. Steps are given the fingerprints of the code of a run's environment and of its loss,
which ZenML stores with each as its parameters. What is made again is forgotten by the cache first, for this run and for
all others. What comes after it and does not change by it is taken from the cache.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from shlex import quote
from typing import Any
from uuid import UUID

from zenml import Model
from zenml.client import Client
from zenml.enums import ExecutionStatus
from zenml.models import PipelineRunResponse, StepRunResponse
from zenml.utils.tag_utils import Tag

from mlops.home.folder import Home, find_home
from mlops.ids import (
    EXPERIMENT_TAG,
    MADE_AGAIN,
    REPLAY_TAG,
    REWARDS,
    ROLLOUTS,
    RUN_TAG,
    TRAIN_REPORT,
    name_of_first,
    resumed_name,
)
from mlops.registry.client import RegistryClient, current_champion
from mlops.registry.logged_model import damage_of
from mlops.registry.names import REGISTRATION, RUN_NAME_TAG
from mlops.runs.finding import attempts_of, finished_steps, name_of, successful_steps
from mlops.runs.labels import Labels, labels_of
from mlops.runs.policies import lacks_weights, weights_removed
from mlops.runs.store import RunStore, as_parameter, stored_config
from mlops.stacks.image import pod_options
from mlops.summary.file import read_summary
from mlops.tracking.address import HOME, answering, tracking_address
from rlft.config import Config
from rlft.errors import DamagedError, RlftError

HARNESS, REWARD, LOSS = "harness", "reward", "loss"
_HASH = 64  # hexadecimal digits; where a step depends on both sides of an environment it is given the two as one text
_TOLD = ("audit_rewards", "warm_start", ROLLOUTS.step, REWARDS.step, TRAIN_REPORT.step)  # in the order of a run
_ASKED = "fetch_champion"
_EVALUATIONS = "evaluate_policy_"
_WITHOUT_CODE = ("decide_promotion", REGISTRATION)
_CACHED = {
    HARNESS: "the tasks and the base policy",
    REWARD: "the tasks, the base policy and the rollouts from before the first update",
    LOSS: "all from before the first update",
}


def steps_of_same_code(
    run: PipelineRunResponse, again: Resumed, damaged: Collection[str], now: Mapping[str, str]
) -> set[str]:
    """Return the steps that an attempt need not repeat (`finished_steps`), if its code is what the run began with.

    Otherwise nothing that uses the code may be left to do: then the steps that depend on the champion are among them.
    `again` is how the attempt is resumed, `damaged` are steps that run again, and `now` are the fingerprints of the
    code as it is. Raises RlftError, which says what has changed and what to do.
    """
    changed = changed_code(begun_with(attempts_of(run)), now)
    if not changed:
        return finished_steps(run)
    left = _left_to_do(run, again.config, again.inputs["tracking_uri"], damaged)
    if left is None:
        return successful_steps(run) - set(_WITHOUT_CODE)
    raise _refusal(run, again.config, changed, left)


def begun_with(attempts: Sequence[PipelineRunResponse]) -> dict[str, str]:
    """Return the fingerprints that the first attempts at a run were given; without those of what it had not come to.

    `attempts` come with the newest first.
    """
    found: dict[str, str] = {}
    for attempt in reversed(attempts):
        steps = list(Client().list_run_steps(pipeline_run_id=attempt.id, size=10_000))
        for kind in _TOLD:
            one = next((step for step in steps if _is(step, kind) and step.status.is_successful), None)
            if one is not None:
                found = fingerprints_in(Client().get_run_step(one.id).config.parameters) | found
        if found.keys() == _CACHED.keys():
            break
    return found


def _is(step: StepRunResponse, kind: str) -> bool:
    return step.name == kind or step.name.startswith(f"{kind}_")


def fingerprints_in(parameters: Mapping[str, object]) -> dict[str, str]:
    """Return the fingerprints among the parameters of a step, by what they are of."""
    both = str(parameters.get("environment_fingerprint") or parameters.get("fingerprints") or "")
    given = {
        HARNESS: both[:_HASH],
        REWARD: str(parameters.get("reward_fingerprint") or both[_HASH:]),
        LOSS: str(parameters.get("loss_fingerprint") or ""),
    }
    return {kind: digest for kind, digest in given.items() if digest}


def changed_code(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return of what the fingerprints differ. What the run had not come to, or is not known now, has not changed."""
    return [kind for kind in _CACHED if kind in before and kind in now and before[kind] != now[kind]]


def _left_to_do(run: PipelineRunResponse, config: Config, tracking_uri: str, damaged: Collection[str]) -> str | None:
    """Return what is left of a run that would run its code; `None` if nothing is."""
    done = successful_steps(run)
    if again := [step for step in damaged if step not in _WITHOUT_CODE and not step.startswith(_EVALUATIONS)]:
        return f"{again[0]} and what comes after it"
    last = ["trained", *(["pass_at_k_trained"] if config.evaluation.pass_at_k else [])]
    if any(f"{_EVALUATIONS}{name}" not in done for name in last):
        return "what is left of it"
    if REGISTRATION in done:
        return None
    address = tracking_address(tracking_uri)
    with answering(address):
        champion = current_champion(address, config.registry_name)
    own = read_summary(find_home(), str(run.id))
    if champion is not None and own is not None and champion.run_id == own.mlflow_run_id:
        champion = None  # this run made it, before it was cut short
    asked = None if champion is None else (champion.name, champion.version, champion.weights_hash)
    return None if asked == _compared_with(run, done) else "the evaluation of the champion, which is another one now,"


def _compared_with(run: PipelineRunResponse, done: Collection[str]) -> tuple[str, ...] | None:
    """Return name, version and hash of the champion that an attempt has evaluated; `None` if it has found none."""
    if f"{_EVALUATIONS}champion" not in done:
        return None
    [found] = Client().list_run_steps(pipeline_run_id=run.id, name=_ASKED, size=1)
    given = Client().get_run_step(found.id).config.parameters
    return tuple(str(given[name]) for name in ("name", "version", "weights_hash"))


def _refusal(run: PipelineRunResponse, config: Config, changed: Sequence[str], left: str) -> RlftError:
    name, commits = config.environment_name, labels_of((run.config.parameters or {}).get("labels"), run.name).commits
    of = {
        HARNESS: f"the environment {name}, or data that it names",
        REWARD: f"the reward of {name}",
        LOSS: f"the loss {config.training.loss_type}",
    }
    named = [of[kind] for kind in changed if not (kind == REWARD and HARNESS in changed)]
    place = "loss" if changed == [LOSS] else "environment"
    commit = commits.get(place, "")
    known = f" (it began at commit {commit[:12]})" if len(commit) == 40 else ""
    return RlftError(
        f"the code of {' and of '.join(named)} has changed since this run began, and {left} would mix the two",
        where=quote(name_of(run)),
        fix=f"put the code back as it was{known}, then resume; or begin a new run with `rlft run`, which takes "
        f"{_CACHED[changed[0]]} from the cache",
    )


logger = logging.getLogger(__name__)
_POLICIES = ("policy", "reference")  # inputs of steps


def damages_of(home: Home, run: PipelineRunResponse) -> dict[str, DamagedError]:
    """Return what is damaged of a run's results in this home, by the step that has it. All files are read."""
    if (own := RunStore(home).called(name_of(run))) is None:  # it is on a stack
        return {}
    return {step: damage for step, artifact in own.artifacts() for damage in own.damages(artifact, step)}


def lost_registration(run: PipelineRunResponse, tracking_uri: str, name: str) -> set[str]:
    """Return the step that registered the policy of a run as a version of `name` if the version's files are damaged."""
    client = RegistryClient(tracking_uri)
    own = [
        version
        for version in client.search_model_versions(f"name = '{name}'")
        if version.tags.get(RUN_NAME_TAG) == name_of(run)
    ]
    return {REGISTRATION} if any(damage_of(client, version) for version in own) else set()


def steps_to_keep(run: PipelineRunResponse, damaged: Collection[str]) -> set[str]:
    """Return the steps of a run that are not to run again when these steps are, whose results are forgotten.

    If a policy that they start from has lost its weights to `policy.keep`, the steps that trained it run again, too.
    """
    steps = {step.name: step for step in _steps(run)}
    before = _made_again_before(steps)
    again = _with_lost_policies(steps, (set(damaged) & steps.keys()) - before)
    _forget(steps[name] for name in again)
    anew = again | before
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
    """Make the error of a damaged artifact name this run and the step that gave it, which the cache then forgets.

    A seal names the run that stored the artifact, which is another one where it comes from the cache.
    """
    try:
        yield
    except DamagedError as error:
        step = next((step for step in _steps(run) if any(_is_in(error, uri) for uri in _uris(step))), None)
        if step is None:
            raise
        _forget([step])
        raise error.of(name_of(run), step.name) from error


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


def _is_in(error: DamagedError, uri: str) -> bool:
    return error.where == uri or error.where.startswith(f"{uri}/")


def _with_lost_policies(steps: Mapping[str, StepRunResponse], damaged: Collection[str]) -> set[str]:
    """Return the steps with all that share a result with them, and with those that trained policies they need."""
    again: set[str] = set()
    waiting = set(damaged)
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


@dataclass(frozen=True, slots=True)
class Resumed:
    """How a run is resumed: a new name, its config, the options of `train.with_options`, the arguments of `train`."""

    name: str
    config: Config
    options: dict[str, Any]
    inputs: dict[str, Any]


def run_options(config: Config, labels: Labels) -> dict[str, Any]:
    """Return what `train.with_options` takes: tags, the image, and the model version, which all attempts share."""
    experiment = config.tracking.experiment or config.name
    model = Model(
        name=config.registry_name,
        version=labels.name,
        description=labels.note or None,
        tags=_own_tags(labels),
        save_models_to_registry=False,  # a stack's registry would get every round
    )
    return {"tags": _tags(experiment, labels), "model": model, **pod_options(config)}


def replay_options(source: str, experiment: str, labels: Labels, config: Config) -> dict[str, Any]:
    """Return what `with_options` of a replay takes: its name, the image for its config, tags, which name its source."""
    tags = [*_tags(experiment, labels), f"{REPLAY_TAG}={source}"]
    return {"run_name": labels.name, "tags": tags, **pod_options(config)}


def _tags(experiment: str, labels: Labels) -> list[Tag | str]:
    """Return the tags of a run in ZenML, which puts two on all that it makes or takes from the cache, too (cascade)."""
    shared = {EXPERIMENT_TAG: experiment, RUN_TAG: labels.name}
    return [*(Tag(name=f"{key}={value}", cascade=True) for key, value in shared.items()), *_own_tags(labels)]


def _own_tags(labels: Labels) -> list[str]:
    return [f"{key}={value}" for key, value in labels.tags.items()]


def pipeline_inputs(config: Config, labels: Labels, tracking_uri: str | None, *, anew: bool = False) -> dict[str, Any]:
    """Return the arguments of `train`; without an address MLflow is that of the home, wherever it lies."""
    return {
        "config": as_parameter(config),
        "tracking_uri": tracking_uri or HOME,
        "labels": labels.model_dump(mode="json"),
        "anew": anew,
    }


def resumed(
    run: PipelineRunResponse, tracking_uri: str | None, overrides: Sequence[str] = (), *, anew: bool = False
) -> Resumed:
    """Return how to resume a run: with the same model version and labels, and with MLflow where it is now.

    `overrides`, such as `promotion.looks=1`, change its config, and `anew` says that it is decided on once more. Raises
    what `stored_config` raises.
    """
    parameters = run.config.parameters or {}
    config = stored_config(parameters["config"], run.name, overrides)
    labels = labels_of(parameters.get("labels"), name_of_first(run.name))
    inputs = pipeline_inputs(config, labels, tracking_uri, anew=anew)
    name = resumed_name(labels.name, (each.name for each in attempts_of(run)))
    return Resumed(name, config, run_options(config, labels), inputs)
