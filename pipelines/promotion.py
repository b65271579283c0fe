"""Decides whether the trained policy is promoted, and registers it with the decision."""

from __future__ import annotations

from typing import Any

from mlops.registry.decisions import decided_with, score_tag
from mlops.runs.starting import registry_name
from mlops.summary.version_facts import Registration
from mlops.tracking.address import tracking_address
from mlops.tracking.run import Tracker
from pipelines.arms import Arms, Champion
from pipelines.gate import ask_about
from pipelines.rounds_done import Rounds
from pipelines.stages import Artifact, Stages
from rlft.errors import TrackerError
from rlft.promotion import Decision, Known, RegisteredVersion
from steps.decide_promotion import decide_promotion
from steps.register_policy import register_policy


def decide_and_register(
    stages: Stages,
    tasks: Artifact,
    arms: Arms,
    champion: Champion,
    rounds: Rounds,
    tracker: Tracker,
    tracking_uri: str,
    tags: dict[str, str],
    told: dict[str, Any],
    *,
    anew: bool = False,
) -> tuple[Decision, RegisteredVersion]:
    """Decide on the split `gate`, and register the trained policy with the decision.

    `told` and `anew` are those of a `Registration`. The registry counts the look at the gate before the decision is
    known. Raises TrackerError if MLflow does not take it, or if the run could not be opened there, so that there is
    nothing to register the policy under.
    """
    config = stages.config
    if tracker.run_id is None:
        raise TrackerError("the tracker did not answer: the run could not be opened there", where=tracker.where)
    with stages.show("decision"):
        decision, look = _decide(stages, tasks, arms, champion, rounds, tracking_uri)
    registration = Registration(
        tracking_uri=tracking_uri,
        run_id=tracker.run_id,
        name=registry_name(config),
        tags=tags | decided_with(champion.version, champion.weights_hash, look) | _score(stages, arms),
        config=config.model_dump(mode="json"),
        told=told,
        anew=anew,
    )
    with stages.show("registering the policy"):
        version = register_policy(
            rounds.best,
            decision,
            registration,
            tasks,
            arms.final,
            arms.base,
            arms.warm_start,
            arms.champion,
            arms.constant,
        )
    return decision.load(), version.load()


def _score(stages: Stages, arms: Arms) -> dict[str, str]:
    """Return the tag that says how well the trained policy did on the gate; none where it has no score there."""
    metric = stages.config.evaluation.metric
    found = arms.final.load().splits["gate"].metrics.get(metric)
    return score_tag(metric, found.mean) if found else {}


def _decide(
    stages: Stages, tasks: Artifact, arms: Arms, champion: Champion, rounds: Rounds, tracking_uri: str
) -> tuple[Artifact, str]:
    """Return the decision, and the name of the registered model's tag that holds the look at the gate."""
    config = stages.config
    gate = tasks.load().split("gate")
    trained, start = arms.final.load().splits["gate"], (arms.warm_start or arms.base).load().splits["gate"]
    look, known, noted = ask_about(
        gate,
        trained,
        start,
        config,
        champion.run_id if arms.champion else None,
        tracking_address(tracking_uri),
        stages.fingerprints.harness + stages.fingerprints.reward,
    )
    decision = decide_promotion(
        arms.final,
        arms.base,
        tasks,
        config.evaluation,
        config.promotion,
        Known(
            look=look.number,
            spent=look.spent,
            champion_knows=known,
            audit=config.reward.audit or None,  # a run whose reward fails its audit does not come this far
            monitor=rounds.stopping_alarm(),
        ),
        arms.warm_start,
        arms.champion,
        arms.constant,
    )
    return decision, noted
