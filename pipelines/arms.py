"""Makes and evaluates the arms of a run on the same tasks: an arm is one of the models that are compared.

Beside the run's own policies they are those of `rlft.evaluation.arms` that the config wants: something simpler, with at
most the FLOPs of the training.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mlops.ids import step_id
from mlops.registry.client import NamedVersion
from mlops.tracking.run import Tracker, log_control
from pipelines.rounds import Rounds
from pipelines.stages import Artifact, Stages
from rlft.errors import TrackerError
from rlft.evaluation.arms import Arm, PolicyArm
from rlft.evaluation.searches.prompts import PromptReport
from rlft.evaluation.searches.validator import ControlReport, Terms
from rlft.harness.attempt import Examples
from rlft.types import Evaluation, Split
from steps.arms import choose_prompt, train_arm
from steps.policies import fetch_champion

logger = logging.getLogger(__name__)
ARM_STEPS = [train_arm, choose_prompt, fetch_champion]
FINAL_SPLITS: list[Split] = ["gate", "test", "off_distribution"]


@dataclass(frozen=True, slots=True)
class Arms:
    """Holds the evaluation artifact of each arm by its key in the summary; `None` for one that the run does not have.

    `controls` are those of `rlft.evaluation.arms` by name, and `reports` say how they were made; `constant` is the best
    constant answer, a control of every run. `left_out` says by name why others that the config wants do not apply.

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

    `base` is the model before the warm start, `start` the one that the rounds began with, and `own` the other model
    that `controls` name, if any.
    """

    base: Artifact
    start: Artifact
    own: Artifact | None


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
    left_out = arms_left_out(stages, tasks)
    controls, reports = dict[str, Artifact](), dict[str, ControlReport | PromptReport]()
    for arm in sorted(stages.config.arms(), key=lambda arm: not isinstance(arm, PolicyArm)):
        if arm.name not in left_out:
            policy, report, examples = make_arm(stages, tasks, starts, rounds, arm)
            log_control(tracker, arm.name, report)
            reports[arm.name] = report
            controls[arm.name] = stages.evaluate(policy, tasks, FINAL_SPLITS, f"{arm.name}_control", examples)
    found = _fetch(stages, find_champion, tracking_uri)
    champion = None if found.policy is None else stages.evaluate(found.policy, tasks, FINAL_SPLITS, "champion")
    arms = Arms(
        base=stages.evaluate(starts.base, tasks, FINAL_SPLITS, "base"),
        warm_start=warm,
        controls=controls,
        constant=stages.constant(tasks, rounds.often_said(), FINAL_SPLITS),
        final=stages.evaluate(rounds.best, tasks, FINAL_SPLITS, "trained"),
        champion=champion,
        reports=reports,
        left_out=left_out,
    )
    return arms, found


def arms_left_out(stages: Stages, tasks: Artifact) -> dict[str, str]:
    """Return why arms that the config wants do not apply, by their names."""
    has_answers = stages.has_demonstrations(tasks.load())
    reasons = {arm.name: arm.why_not(stages.config, has_answers=has_answers) for arm in stages.config.arms()}
    found = {name: reason for name, reason in reasons.items() if reason}
    for name, reason in found.items():
        logger.info("the control %s is left out: %s", name, reason)
    return found


def make_arm(
    stages: Stages, tasks: Artifact, starts: Starts, rounds: Rounds, arm: Arm
) -> tuple[Artifact, ControlReport | PromptReport, Examples | None]:
    """Return the policy of an arm, the report on how it was made, and what it reads before each prompt."""
    config, policy = stages.config, getattr(starts, arm.begins)
    terms = Terms(
        warm_start=config.warm_start,
        training=config.training,
        sampling=stages.sampling(config.rollout.temperature),
        rounds=len(rounds.reports),
        validate_every=config.evaluation.validate_every,
        flops=rounds.flops(),
        validation_flops=rounds.validation_flops(),
    )
    given = (policy, tasks, arm.name, arm.decisive(), arm.terms(terms), stages.validation(), config.policy.device)
    if isinstance(arm, PolicyArm):
        with stages.show(f"control {arm.name}", "supervised", "sampling"):
            policy, trained = train_arm(*given, id=f"{arm.name}_control")
        return policy, trained.load(), None
    with stages.show(f"prompts {arm.name}", "sampling"):
        chosen = choose_prompt(*given, id=step_id("choose_prompt", arm.name)).load()
    return policy, chosen, chosen.read_examples()


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
