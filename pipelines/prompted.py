"""The prompted controls of a run: models that are not trained, with solved tasks in their prompt."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from mlops.ids import step_id
from mlops.tracking.control_curves import log_prompts
from mlops.tracking.run import Tracker
from pipelines.rounds_done import Rounds
from pipelines.stages import Artifact, Stages
from rlft.controls.few_shot import PromptReport
from rlft.harness.examples import Examples
from steps.choose_prompt import choose_prompt


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
            config.environment,
            config.reward,
            stages.evaluation_sampling(),
            config.evaluation.num_generations,
            config.evaluation.metric,
            stages.fingerprints.harness + stages.fingerprints.reward,
            config.policy.device,
            flops,
            first,
            id=step_id("choose_prompt", name),
        )
    report = chosen.load()
    log_prompts(tracker, name, report)
    return Prompted(policy, report, report.read_examples())
