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
from datetime import UTC, datetime
from shlex import quote
from typing import Any

from zenml.client import Client
from zenml.models import ArtifactVersionResponse, PipelineRunResponse, StepRunResponse
from zenml.utils.tag_utils import Tag

from mlops.home.folder import Home
from mlops.ids import (
    EXPERIMENT_TAG,
    REPLAY_TAG,
    REWARDS,
    ROLLOUTS,
    RUN_TAG,
    TRAIN_REPORT,
    name_of_first,
    resumed_name,
)
from mlops.registry.client import RegistryClient
from mlops.registry.logged_model import damage_of
from mlops.registry.names import REGISTRATION, RUN_NAME_TAG
from mlops.runs.finding import attempts_of, finished_steps, name_of
from mlops.runs.labels import Labels, labels_of
from mlops.runs.policies import lacks_weights
from mlops.runs.store import RunStore, as_parameter, stored_config
from mlops.stacks.image import pod_options
from mlops.tracking.address import HOME
from rlft.config import Config
from rlft.errors import DamagedError, RlftError

HARNESS, REWARD, LOSS = "harness", "reward", "loss"
_HASH = 64  # hexadecimal digits; where a step depends on both sides of an environment it is given the two as one text
_TOLD = ("audit_rewards", "warm_start", ROLLOUTS.step, REWARDS.step, TRAIN_REPORT.step)  # in the order of a run
_KINDS = (HARNESS, REWARD, LOSS)


def steps_of_same_code(run: PipelineRunResponse, config: Config, now: Mapping[str, str]) -> set[str]:
    """Return the steps that an attempt need not repeat (`finished_steps`), if its code is what the run began with.

    `config` is that of the attempt, and `now` are the fingerprints of the code as it is. Raises RlftError, which says
    what has changed and what to do.
    """
    if changed := changed_code(begun_with(attempts_of(run)), now):
        raise _refusal(run, config, changed)
    return finished_steps(run)


def begun_with(attempts: Sequence[PipelineRunResponse]) -> dict[str, str]:
    """Return the fingerprints that the first attempts at a run were given; without those of what it had not come to.

    `attempts` come with the newest first.
    """
    found: dict[str, str] = {}
    for attempt in reversed(attempts):
        steps = list(Client().list_run_steps(pipeline_run_id=attempt.id, size=10_000))
        for kind in _TOLD:
            named = (step for step in steps if f"{step.name}_".startswith(f"{kind}_"))
            one = next((step for step in named if step.status.is_successful), None)
            if one is not None:
                found = fingerprints_in(Client().get_run_step(one.id).config.parameters) | found
        if len(found) == len(_KINDS):
            break
    return found


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
    return [kind for kind in _KINDS if kind in before and kind in now and before[kind] != now[kind]]


def _refusal(run: PipelineRunResponse, config: Config, changed: Sequence[str]) -> RlftError:
    name, commits = config.environment_name, labels_of((run.config.parameters or {}).get("labels"), run.name).commits
    of = {
        HARNESS: f"the environment {name}, or data that it names",
        REWARD: f"the reward of {name}",
        LOSS: f"the loss {config.training.loss_type}",
    }
    named = [of[kind] for kind in changed if not (kind == REWARD and HARNESS in changed)]
    commit = commits.get("training.loss_type" if changed == [LOSS] else "environment.name", "")
    known = f" (it began at commit {commit[:12]})" if len(commit) == 40 else ""
    return RlftError(
        f"the code of {' and of '.join(named)} has changed since this run began, and what is left would mix the two",
        where=quote(name_of(run)),
        fix=f"put the code back as it was{known}, then resume; or begin a new run with `rlft run`, which takes "
        "from the cache what comes before it; one that has only to be registered is by `rlft promote`",
    )


logger = logging.getLogger(__name__)


def damages_of(home: Home, run: PipelineRunResponse) -> dict[str, DamagedError]:
    """Return what is damaged of an attempt's results in this home, by the step that has it. All files are read."""
    if (own := RunStore(home).called(name_of(run))) is None:  # it is on a stack
        return {}
    return {
        step.name: damage
        for step in _steps(run)
        for made in _made(step)
        for damage in own.damages({"place": made.uri, "files": made.run_metadata.get("files", {})}, step.name)
    }


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

    What a step after them still makes alike is in the cache.
    """
    steps = {step.name: step for step in _steps(run)}
    again = set(damaged) & steps.keys()
    _forget(steps[name] for name in again)
    return {name for name, step in steps.items() if step.status.is_successful} - again - _after(steps, again)


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
        step = next((step for step in _steps(run) if any(_is_in(error, made.uri) for made in _made(step))), None)
        if step is None:
            raise
        _forget([step])
        raise error.of(name_of(run), step.name) from error


def has_step(run: PipelineRunResponse | None, name: str) -> bool:
    """Return whether a run has a step of this name; `None` has none."""
    return run is not None and bool(Client().list_run_steps(pipeline_run_id=run.id, name=name, size=1))


def _steps(run: PipelineRunResponse) -> list[StepRunResponse]:
    return list(Client().list_run_steps(pipeline_run_id=run.id, size=10_000, hydrate=True))


def _made(step: StepRunResponse) -> list[ArtifactVersionResponse]:
    return [artifact for artifacts in step.outputs.values() for artifact in artifacts]


def _is_in(error: DamagedError, uri: str) -> bool:
    return error.where == uri or error.where.startswith(f"{uri}/")


def _after(steps: Mapping[str, StepRunResponse], changed: set[str]) -> set[str]:
    """Return the steps that use results of these, or results of such steps."""
    used = {name: {read.id for given in step.inputs.values() for read in given} for name, step in steps.items()}
    later, artifacts = set[str](), {made.id for name in changed for made in _made(steps[name])}
    while found := {name for name, inputs in used.items() if inputs & artifacts} - later:
        later |= found
        artifacts |= {made.id for name in found for made in _made(steps[name])}
    return later


def _forget(steps: Iterable[StepRunResponse]) -> None:
    """Let the cache forget the results of these steps, which they have made or were given by the cache."""
    artifacts = [artifact for step in steps for artifact in _made(step)]
    for producer in {artifact.producer_step_run_id for artifact in artifacts if artifact.producer_step_run_id}:
        Client().update_step_run(producer, cache_expires_at=datetime.now(UTC).replace(tzinfo=None))  # as ZenML's are


@dataclass(frozen=True, slots=True)
class Resumed:
    """How a run is resumed: a new name, its config, the options of `train.with_options`, the arguments of `train`."""

    name: str
    config: Config
    options: dict[str, Any]
    inputs: dict[str, Any]


def run_options(config: Config, labels: Labels) -> dict[str, Any]:
    """Return what `train.with_options` takes: tags, which all attempts share, and the image."""
    return {"tags": _tags(config.tracking.experiment or config.name, labels), **pod_options(config)}


def replay_options(source: str, experiment: str, labels: Labels, config: Config) -> dict[str, Any]:
    """Return what `with_options` of a replay takes: its name, the image for its config, tags, which name its source."""
    tags = [*_tags(experiment, labels), f"{REPLAY_TAG}={source}"]
    return {"run_name": labels.name, "tags": tags, **pod_options(config)}


def _tags(experiment: str, labels: Labels) -> list[Tag | str]:
    """Return the tags of a run in ZenML, which puts two on all that it makes or takes from the cache, too (cascade)."""
    shared = {EXPERIMENT_TAG: experiment, RUN_TAG: labels.name}
    cascading = (Tag(name=f"{key}={value}", cascade=True) for key, value in shared.items())
    return [*cascading, *(f"{key}={value}" for key, value in labels.tags.items())]


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
    """Return how to resume a run: with the same labels, and with MLflow where it is now.

    `overrides`, such as `promotion.looks=1`, change its config, and `anew` says that it is decided on once more. Raises
    what `stored_config` raises.
    """
    parameters = run.config.parameters or {}
    config = stored_config(parameters["config"], run.name, overrides)
    labels = labels_of(parameters.get("labels"), name_of_first(run.name))
    inputs = pipeline_inputs(config, labels, tracking_uri, anew=anew)
    name = resumed_name(labels.name, (each.name for each in attempts_of(run)))
    return Resumed(name, config, run_options(config, labels), inputs)
