"""The controls of a run, in their order: what something simpler reaches with at most the FLOPs of the training.

To add one, give it a row in `CONTROLS`, a name in `rlft.config.controls` and a label in `mlops/summary/controls.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass

from mlops.tracking.control_curves import log_control
from mlops.tracking.run import Tracker
from pipelines.rounds_done import Rounds
from pipelines.stages import Artifact, Stages
from rlft.config import ControlName
from rlft.controls.best import ControlReport
from steps.train_rejection_control import train_rejection_control
from steps.train_sft_control import train_sft_control

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Control:
    """Says how a control is trained: `make` returns its policy and its report."""

    name: ControlName
    make: Callable[[Stages, Artifact, Artifact, Rounds], tuple[Artifact, Artifact]]


def _sft(stages: Stages, start: Artifact, tasks: Artifact, rounds: Rounds) -> tuple[Artifact, Artifact]:
    config = stages.config
    with stages.show("sft control", "supervised", "sampling"):
        return train_sft_control(
            start,
            tasks,
            config.warm_start,
            config.environment,
            config.reward,
            stages.evaluation_sampling(),
            config.evaluation.num_generations,
            config.evaluation.metric,
            stages.fingerprints.harness + stages.fingerprints.reward,
            config.policy.device,
            rounds.flops(),
            rounds.validation_flops(),
            config.training.per_step_token_budget,
            config.training.gradient_checkpointing,
            id="sft_control",
        )


def _rejection(stages: Stages, start: Artifact, tasks: Artifact, rounds: Rounds) -> tuple[Artifact, Artifact]:
    config = stages.config
    with stages.show("rejection sampling control", "supervised", "sampling"):
        return train_rejection_control(
            start,
            tasks,
            config.warm_start,
            config.environment,
            config.reward,
            config.training,
            stages.sampling(config.rollout.temperature),
            stages.evaluation_sampling(),
            config.evaluation.num_generations,
            config.evaluation.metric,
            stages.fingerprints.harness + stages.fingerprints.reward,
            config.policy.device,
            len(rounds.reports),
            config.evaluation.validate_every,
            rounds.flops(),
            rounds.validation_flops(),
            id="rejection_sampling_control",
        )


CONTROLS = (Control("sft", _sft), Control("rejection_sampling", _rejection))


def left_out_controls(stages: Stages, tasks: Artifact) -> dict[str, str]:
    """Return why controls that the config wants, trained or prompted, do not apply, by their names."""
    reasons: dict[ControlName, str] = {}
    if not stages.has_demonstrations(tasks.load()):
        reasons = {"sft": "no train task has a gold answer", "few_shot": "no train task has a gold answer to show"}
    if stages.config.policy.model is None:
        began = "the policy began with random weights, and learns nothing from what stands in its prompt"
        reasons["few_shot"] = began
    elif stages.config.environments:
        reasons["few_shot"] = "the same answers stand before every prompt, and the run has several environments"
    found = {name: reason for name, reason in reasons.items() if stages.config.wants_control(name)}
    for name, reason in found.items():
        logger.info("the control %s is left out: %s", name, reason)
    return found


def make_controls(
    stages: Stages,
    start: Artifact,
    tasks: Artifact,
    rounds: Rounds,
    tracker: Tracker,
    without: Collection[str] = (),
) -> dict[str, tuple[Artifact, ControlReport]]:
    """Train the controls that the config wants, and return their policies and reports by name.

    Each gets the FLOPs of all rounds and of their validations, and starts where the rounds did. `without` names those
    that do not apply.
    """
    found = dict[str, tuple[Artifact, ControlReport]]()
    for control in CONTROLS:
        if control.name in without or not stages.config.wants_control(control.name):
            continue
        policy, report = control.make(stages, start, tasks, rounds)
        found[control.name] = policy, report.load()
        log_control(tracker, control.name, found[control.name][1])
    return found
