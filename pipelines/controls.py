"""The controls of a run: what something simpler reaches with at most the FLOPs of the training.

Some are trained, in the order of `CONTROLS`; others are not, and have solved tasks in their prompt.

To add one, give it a row in `CONTROLS`, a name in `rlft.config.evaluation` and a label in `mlops/summary/verdict.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass

from mlops.ids import step_id
from mlops.tracking.run import Tracker, log_control
from pipelines.rounds import Rounds
from pipelines.stages import Artifact, Stages
from rlft.config import ControlName
from rlft.controls.best import ControlReport
from rlft.controls.few_shot import PromptReport
from rlft.harness.examples import Examples
from rlft.training.imitation import Memory
from steps.controls import choose_prompt, train_rejection_control, train_sft_control

logger = logging.getLogger(__name__)
CONTROL_STEPS = [train_sft_control, train_rejection_control, choose_prompt]


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
            stages.validation(),
            config.policy.device,
            rounds.flops(),
            rounds.validation_flops(),
            Memory.of(config.training),
            id="sft_control",
        )


def _rejection(stages: Stages, start: Artifact, tasks: Artifact, rounds: Rounds) -> tuple[Artifact, Artifact]:
    config = stages.config
    with stages.show("rejection sampling control", "supervised", "sampling"):
        return train_rejection_control(
            start,
            tasks,
            config.warm_start,
            stages.validation(),
            config.training,
            stages.sampling(config.rollout.temperature),
            config.policy.device,
            len(rounds.reports),
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


@dataclass(frozen=True, slots=True)
class Prompted:
    """Holds a policy, the report on its prompts, and the examples that it reads; `None` if it does best without."""

    policy: Artifact
    report: PromptReport
    examples: Examples | None


def prompted_controls(
    stages: Stages,
    base: Artifact,
    other: Artifact | None,
    tasks: Artifact,
    rounds: Rounds,
    tracker: Tracker,
    without: Collection[str] = (),
) -> dict[str, Prompted]:
    """Choose the prompts of the controls that the config wants, and return these controls by name.

    `other` is the other model that the config names; there may be no example to show it. `without` names the controls
    that do not apply. The search for each prompt may take the FLOPs of all rounds and of their validations. Those of a
    model behind an address nobody knows.
    """
    found = dict[str, Prompted]()
    if "few_shot" not in without and stages.config.wants_control("few_shot"):
        found["few_shot"] = _prompted(stages, base, tasks, rounds, tracker, "few_shot")
    if other is not None:
        found["model"] = _prompted(stages, other, tasks, rounds, tracker, "model")
    return found


def _prompted(
    stages: Stages, policy: Artifact, tasks: Artifact, rounds: Rounds, tracker: Tracker, name: str
) -> Prompted:
    config, model = stages.config, stages.config.other_model
    is_asked = name == "model" and model is not None and model.endpoint is not None
    flops = None if is_asked else rounds.flops()
    first = rounds.validation_flops() if name == "few_shot" else None  # another model has another size
    with stages.show(f"prompts {name}", "sampling"):
        chosen = choose_prompt(
            policy,
            tasks,
            config.warm_start,
            stages.validation(),
            config.policy.device,
            flops,
            first,
            id=step_id("choose_prompt", name),
        )
    report = chosen.load()
    log_control(tracker, name, report)
    return Prompted(policy, report, report.read_examples())
