"""What is known of a version when its policy is registered, from the run's summary, settings, tasks and reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, ConfigDict

from mlops.registry.names import RUN_NAME_TAG
from mlops.summary.summary import Summary
from mlops.summary.verdict import lead, results, unbeaten_controls, weak_controls
from rlft.config import Config
from rlft.environments.contract.base import BaseEnv
from rlft.harness.preparing import shown_context
from rlft.models import PolicyFolder
from rlft.models.folder import load_tokenizer
from rlft.reporting.model_card import Facts, reward_by
from rlft.tasks.sources import describe_tasks
from rlft.texts.blocks import Block
from rlft.types import SPLITS, Evaluation, EvaluationReport, TaskSet


class Registration(BaseModel):
    """What is registered: the name of the model, the MLflow run at an address, its tags, and the run's config as JSON.

    `told` has the run's `summary` as far as it goes, the report of its reward `audit`, if there was one, and the exact
    `code` that ran. With `anew` the policy may have been decided on before, and registered.
    """

    model_config = ConfigDict(frozen=True)

    tracking_uri: str
    run_id: str
    name: str
    tags: dict[str, str]
    config: dict[str, Any]
    told: dict[str, Any]
    anew: bool = False


def verdict_blocks(told: Mapping[str, Any]) -> list[Block]:
    """Return the verdict on the run whose `summary` is in `told`, with what must be read before it."""
    return list(lead(Summary.model_validate(told["summary"])))


def version_facts(
    registration: Registration,
    reasons: Sequence[str],
    policy: PolicyFolder,
    environment: BaseEnv,
    tasks: TaskSet,
    arms: Mapping[str, Evaluation | None],
) -> Facts:
    """Return what is known of a version.

    `reasons` are those of the decision. `arms` are the evaluations of the policies, `None` for one that the run does
    not have. Raises what `shown_context` raises.
    """
    told, config = registration.told, Config.model_validate(registration.config)
    summary = Summary.model_validate(told["summary"])
    reports = {name: arm.splits for name, arm in arms.items() if arm is not None and arm.splits}
    metadata, trained = policy.metadata, reports["trained"]
    sizes = Counter(task.split for task in tasks.tasks)
    parts = dict.fromkeys(
        name.removeprefix("rewards/")
        for report in trained.values()
        for name in report.per_task
        if name.startswith("rewards/")
    )
    return Facts(
        name=registration.name,
        run_name=registration.tags.get(RUN_NAME_TAG, ""),
        run_id=registration.run_id,
        policy=asdict(metadata),
        shown=shown_context(environment, config.harness, tasks.tasks, load_tokenizer(policy)).model_dump(mode="json"),
        config=config.model_dump(mode="json"),
        tags=registration.tags,
        reports=reports,
        source=describe_tasks(config.tasks),
        sizes={split: sizes[split] for split in SPLITS if sizes[split]},
        fingerprint=tasks.fingerprint,
        reward=reward_by(config.reward, environment, list(parts)),
        results=list(results(summary)),
        simpler=_simpler(summary),
        reasons=reasons,
        caveats=_caveats(summary, trained),
        audit=told.get("audit"),
        code=told.get("code", {}),
    )


def _simpler(summary: Summary) -> list[str]:
    """Return a sentence for each control that the model is not shown to beat, or that it beats all with a score."""
    if found := unbeaten_controls(summary):
        return [*found, *weak_controls(summary)]
    scored = [name for name, change in summary.difference_controls.items() if change is not None]
    if not scored:
        return []
    return [f"No control that was tried does as well ({', '.join(scored)}).", *weak_controls(summary)]


def _caveats(summary: Summary, trained: Mapping[str, EvaluationReport]) -> list[str]:
    """Return what the results do not show: rollouts without a score, and that nothing simpler was tried.

    That tasks are old, answers have collapsed, or other texts got worse is told among the results themselves.
    """
    said = [
        f"{report.errored} attempts on {split} have no score and are left out of its means."
        for split, report in trained.items()
        if report.errored
    ]
    if "constant" not in summary.difference_controls or len(summary.difference_controls) < 2:
        said.append("Apart from the best constant answer no control was trained, so something simpler may do as well.")
    return said
