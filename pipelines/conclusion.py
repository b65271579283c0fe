"""The end of a run: evaluates, compares and registers its policies, and writes what came of it into its summary."""

from __future__ import annotations

import logging
from functools import partial

from mlops.registry.client import NamedVersion, current_champion
from mlops.registry.decisions import decided_with
from mlops.registry.names import SCORE_TAG
from mlops.runs.resuming import has_step
from mlops.runs.runtime import current_run
from mlops.summary.arms import promotion_section
from mlops.summary.summary import Promotion
from mlops.summary.version_facts import Registration
from mlops.tracking.address import answering, tracking_address
from mlops.tracking.run import Tracker
from pipelines.arms import Arms, Champion, Starts, evaluate_arms
from pipelines.beside import BESIDE, BESIDE_STEPS, Ended
from pipelines.gate import ask_about
from pipelines.observer import Observer
from pipelines.rounds import Rounds
from pipelines.stages import Artifact, Stages
from rlft.errors import TrackerError
from rlft.evaluation.promotion import Decision, Known, RegisteredVersion
from steps.policies import fetch_champion
from steps.promotion import decide_promotion, register_policy

logger = logging.getLogger(__name__)

LAST_STEPS = [*BESIDE_STEPS, decide_promotion, register_policy]


def conclude(
    stages: Stages,
    tasks: Artifact,
    starts: Starts,
    rounds: Rounds,
    seen: Observer,
    tracking_uri: str,
    *,
    anew: bool = False,
) -> None:
    """Evaluate all arms, decide, and register the trained policy; `seen` is given all that comes of it.

    `anew` says that the policy may have been decided on before. Raises TrackerError, with all but the registration in
    the summary, if MLflow does not answer.
    """
    name = stages.config.registry_name
    with seen.timed("evaluate"):
        find_champion = partial(_champion, tracking_address(tracking_uri), name, seen.tracker)
        arms, champion = evaluate_arms(stages, tasks, starts, rounds, find_champion, seen.tracker, tracking_uri)
        seen.arms(arms, rounds)
        seen.diagnosed(rounds, len(tasks.load().split("train")))
        for stage in BESIDE:
            stage(Ended(stages, tasks, starts, rounds, arms, seen))
    try:
        if champion.unknown is not None:
            raise champion.unknown  # a decision without the champion might put a worse policy in its place
        decision, version = decide_and_register(stages, tasks, arms, champion, rounds, seen, tracking_uri, anew=anew)
    except TrackerError as cause:
        later = f"`{seen.attempt.resume}` registers it from what is stored"
        seen.summary.promotion = Promotion(name=name, reasons=[f"not registered: {cause.what}", later])
        raise
    seen.summary.promotion = promotion_section(decision, version, name, anew=anew)


def _champion(address: str, name: str, tracker: Tracker) -> NamedVersion | None:
    """Return the champion to compare with; `None` if there is none but what this run made before it was resumed.

    An attempt that has compared with a champion keeps the steps of that.
    """
    with answering(address):
        champion = current_champion(address, name)
    own = champion is not None and champion.run_id == tracker.run_id
    return None if own and not has_step(current_run().original_run, fetch_champion.name) else champion


def decide_and_register(
    stages: Stages,
    tasks: Artifact,
    arms: Arms,
    champion: Champion,
    rounds: Rounds,
    seen: Observer,
    tracking_uri: str,
    *,
    anew: bool = False,
) -> tuple[Decision, RegisteredVersion]:
    """Decide on the split `gate`, and register the trained policy with the decision.

    `anew` is that of a `Registration`. The registry counts the look at the gate before the decision is
    known. Raises TrackerError if MLflow does not take it, or if the run could not be opened there, so that there is
    nothing to register the policy under.
    """
    config, tracker = stages.config, seen.tracker
    if tracker.run_id is None:
        raise TrackerError("the tracker did not answer: the run could not be opened there", where=tracker.where)
    with stages.show("decision"):
        decision, look = _decide(stages, tasks, arms, champion, rounds, tracking_uri)
    registration = Registration(
        tracking_uri=tracking_uri,
        run_id=tracker.run_id,
        name=config.registry_name,
        tags=seen.attempt.tags | decided_with(champion.version, champion.weights_hash, look) | _score(stages, arms),
        config=config.model_dump(mode="json"),
        told={"summary": seen.summary.model_dump(mode="json"), "audit": seen.audit, "code": seen.attempt.code},
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
    return {f"{SCORE_TAG}{metric}": repr(round(found.mean, 4))} if found else {}


def _decide(
    stages: Stages, tasks: Artifact, arms: Arms, champion: Champion, rounds: Rounds, tracking_uri: str
) -> tuple[Artifact, str]:
    """Return the decision, and the name of the registered model's tag that holds the look at the gate."""
    config = stages.config
    gate = tasks.load().split("gate")
    look, known, noted = ask_about(
        gate,
        arms.final.load().splits["gate"].policy,
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
