"""The end of a run: evaluates every arm on the same tasks, decides on promotion, and registers the trained policy.

An arm is one of the policies that are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from mlops.registry.champion import ChampionVersion
from mlops.runs.starting import registry_name
from mlops.tracking.run import Tracker
from pipelines.rounds import Rounds
from pipelines.stages import Artifact, Stages
from rlft.promotion import Decision, RegisteredVersion
from rlft.sft.training import SftReport
from rlft.types import Evaluation, Split
from steps.decide_promotion import decide_promotion
from steps.fetch_champion import fetch_champion
from steps.register_policy import register_policy

FINAL_SPLITS: list[Split] = ["gate", "test", "off_distribution"]


@dataclass(frozen=True, slots=True)
class Arms:
    """Holds the evaluation artifact of each arm by its key in the summary; `None` for one that the run does not have.

    `final` is the trained policy, whose steps have ids such as `evaluate_policy_trained`.
    """

    base: Artifact
    warm_start: Artifact | None
    sft_control: Artifact | None
    final: Artifact
    champion: Artifact | None

    def load(self) -> dict[str, Evaluation]:
        """Return the evaluations of the arms that there are, by their keys in the summary."""
        arms = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: arm.load() for name, arm in arms.items() if arm is not None}


def evaluate_arms(
    stages: Stages,
    tasks: Artifact,
    *,
    base: Artifact,
    start: Artifact,
    rounds: Rounds,
    champion_version: ChampionVersion | None,
    tracking_uri: str,
    note_training: Callable[[str, SftReport], None],
) -> Arms:
    """Evaluate base, warm start, SFT control, trained policy and champion on the same tasks with the same seeds.

    The SFT control trains from the warm start for as many seconds as sampling, scoring and updates took;
    `note_training` is told its stage's name and its report. `champion_version` is `None` before the first promotion.
    """
    config = stages.config
    control = champion = warm = None
    if config.warm_start is not None:
        warm = stages.evaluate(start, tasks, FINAL_SPLITS, "warm_start")
        if config.evaluation.sft_control:
            spent = sum(rounds.seconds().values())
            policy, report = stages.supervise(start, tasks, stage="sft_control", seconds=round(spent, 1))
            note_training("sft_control", report.load())
            control = stages.evaluate(policy, tasks, FINAL_SPLITS, "sft_control")
    if champion_version is not None:
        now = champion_version
        with stages.show("fetching the champion"):
            policy = fetch_champion(tracking_uri, now.name, now.version, now.weights_hash)
        champion = stages.evaluate(policy, tasks, FINAL_SPLITS, "champion")
    return Arms(
        base=stages.evaluate(base, tasks, FINAL_SPLITS, "base"),
        warm_start=warm,
        sft_control=control,
        final=stages.evaluate(rounds.best, tasks, FINAL_SPLITS, "trained"),
        champion=champion,
    )


def promote(
    stages: Stages, arms: Arms, rounds: Rounds, tracker: Tracker, tracking_uri: str, tags: dict[str, str]
) -> tuple[Decision, RegisteredVersion | None]:
    """Decide on the split `gate`, and register the trained policy with the decision.

    Returns no version if the run could not be opened in MLflow: then there is nothing to register the policy under.
    """
    config = stages.config
    with stages.show("decision"):
        decision = decide_promotion(
            arms.final, arms.base, config.evaluation, config.promotion, config.seed, arms.warm_start, arms.champion
        )
    if tracker.run_id is None:
        return decision.load(), None
    with stages.show("registering the policy"):
        version = register_policy(
            rounds.best,
            decision,
            tracking_uri,
            tracker.run_id,
            registry_name(config),
            config.rollout.max_completion_length,
            tags,
        )
    return decision.load(), version.load()
