"""Evaluates the arms of a run on the same tasks: an arm is one of the policies that are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mlops.registry.client import NamedVersion
from mlops.tracking.run import Tracker
from pipelines.controls import left_out_controls, make_controls, prompted_controls
from pipelines.rounds import Rounds
from pipelines.stages import Artifact, Stages
from rlft.controls.best import ControlReport
from rlft.controls.few_shot import PromptReport
from rlft.errors import TrackerError
from rlft.types import Evaluation, Split
from steps.policies import fetch_champion

FINAL_SPLITS: list[Split] = ["gate", "test", "off_distribution"]


@dataclass(frozen=True, slots=True)
class Arms:
    """Holds the evaluation artifact of each arm by its key in the summary; `None` for one that the run does not have.

    `controls` are those that are trained, by name, and `reports` theirs; `constant` is the best constant answer, a
    control of every run. `left_out` says by name why others that the config wants do not apply.

    `final` is the trained policy, whose steps have ids such as `evaluate_policy_trained`.
    """

    base: Artifact
    warm_start: Artifact | None
    controls: dict[str, Artifact]
    constant: Artifact
    final: Artifact
    champion: Artifact | None
    reports: Mapping[str, ControlReport | PromptReport]
    left_out: Mapping[str, str] = field(default_factory=dict)

    def load(self) -> dict[str, Evaluation]:
        """Return the evaluations of the arms that there are, controls left out, by their keys in the summary."""
        arms = {"base": self.base, "warm_start": self.warm_start, "final": self.final, "champion": self.champion}
        return {name: arm.load() for name, arm in arms.items() if arm is not None}

    def load_controls(self) -> dict[str, Evaluation]:
        """Return the evaluations of the controls by their names, without one that has no score."""
        loaded = {name: arm.load() for name, arm in {**self.controls, "constant": self.constant}.items()}
        return {name: evaluation for name, evaluation in loaded.items() if evaluation.splits}


@dataclass(frozen=True, slots=True)
class Starts:
    """Holds the policies that were there before the rounds.

    `base` is the model before the warm start, `start` the one that the rounds began with, and `other` the other model
    that `controls` name, if any.
    """

    base: Artifact
    start: Artifact
    other: Artifact | None


@dataclass(frozen=True, slots=True)
class Champion:
    """The champion's policy and the MLflow run that made it, if there is one; `unknown` is why that is not known.

    `version` and `weights_hash` are empty without a champion.
    """

    policy: Artifact | None = None
    run_id: str | None = None
    version: str = ""
    weights_hash: str = ""
    unknown: TrackerError | None = None


def evaluate_arms(
    stages: Stages,
    tasks: Artifact,
    starts: Starts,
    rounds: Rounds,
    find_champion: Callable[[], NamedVersion | None],
    tracker: Tracker,
    tracking_uri: str,
) -> tuple[Arms, Champion]:
    """Evaluate base, warm start, controls, trained policy and champion on the same tasks with the same seeds.

    `find_champion` returns `None` before the first promotion, and raises TrackerError if it cannot know: then all is
    evaluated without the champion, and the error is `unknown`.
    """
    warm = None
    if stages.config.warm_start is not None:
        warm = stages.evaluate(starts.start, tasks, FINAL_SPLITS, "warm_start")
    left_out = left_out_controls(stages, tasks)
    made = make_controls(stages, starts.start, tasks, rounds, tracker, left_out)
    controls = {
        name: stages.evaluate(policy, tasks, FINAL_SPLITS, f"{name}_control") for name, (policy, _) in made.items()
    }
    prompted = prompted_controls(stages, starts.base, starts.other, tasks, rounds, tracker, left_out)
    controls |= {
        name: stages.evaluate(each.policy, tasks, FINAL_SPLITS, f"{name}_control", each.examples)
        for name, each in prompted.items()
    }
    found = _fetch(stages, find_champion, tracking_uri)
    champion = None if found.policy is None else stages.evaluate(found.policy, tasks, FINAL_SPLITS, "champion")
    arms = Arms(
        base=stages.evaluate(starts.base, tasks, FINAL_SPLITS, "base"),
        warm_start=warm,
        controls=controls,
        constant=stages.constant(tasks, rounds.often_said(), FINAL_SPLITS),
        final=stages.evaluate(rounds.best, tasks, FINAL_SPLITS, "trained"),
        champion=champion,
        reports={name: report for name, (_, report) in made.items()}
        | {name: each.report for name, each in prompted.items()},
        left_out=left_out,
    )
    return arms, found


def _fetch(stages: Stages, find_champion: Callable[[], NamedVersion | None], tracking_uri: str) -> Champion:
    try:
        now = find_champion()
        if now is None:
            return Champion()
        with stages.show("fetching the champion"):
            policy = fetch_champion(tracking_uri, now.name, now.version, now.weights_hash)
            return Champion(policy, now.run_id, now.version, now.weights_hash)
    except TrackerError as cause:
        return Champion(unknown=cause)
