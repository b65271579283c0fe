"""Whether the code of a run's environment and of its loss is what the run began with: a resume must not mix two codes.

Steps are given the fingerprints of that code, which ZenML stores with each as its parameters.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from shlex import quote

from zenml.client import Client
from zenml.models import PipelineRunResponse, StepRunResponse

from mlops.home.folder import find_home
from mlops.ids import REWARDS, ROLLOUTS, TRAIN_REPORT
from mlops.registry.named import current_champion
from mlops.registry.names import REGISTRATION
from mlops.runs.finding import attempts_of, finished_steps, name_of, successful_steps
from mlops.runs.labels import labels_of
from mlops.runs.starting import Resumed, registry_name
from mlops.summary.file import read_summary
from mlops.tracking.address import tracking_address
from mlops.tracking.answers import answering
from rlft.config import Config
from rlft.errors import RlftError

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
        champion = current_champion(address, registry_name(config))
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
