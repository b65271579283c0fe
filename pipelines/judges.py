"""Looks whether the judges of a reward still score as they did, before they are asked about attempts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mlops.runs.runtime import pipeline_environment, start_judge
from pipelines.showing import Show
from rlft.config import Config, EnvironmentConfig, RewardConfig, SuiteConfig
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.several import Several, specification_of
from rlft.environments.specified import helpers_of
from rlft.rewards.canaries import check_unchanged, meet_canaries
from rlft.rewards.judges.answers import judges_folder
from rlft.rewards.specification.model import Specification
from rlft.types import Judging, add_judging

logger = logging.getLogger(__name__)
Note = Callable[[Judging | None, list[dict[str, Any]]], None]
"""Notes what judges were asked so far, and what they said of each canary, as JSON."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """An environment with the reward that judges what is done there."""

    environment: BaseEnv
    reward: RewardConfig


def meet_judges(config: Config, show: Show, note: Note | None = None) -> None:
    """Start the judges of a config that rlft starts, and ask each about its canaries.

    Raises RewardError for a judge that has changed beyond what repeating explains, and EngineError for one that does
    not start.
    """
    _meet(_judged(config.environment, config.reward), config.evaluation.metric, show, note)


def meet_judges_of_suite(suite: SuiteConfig, show: Show, note: Note | None = None) -> None:
    """Do the same for the judges of all scenarios of a suite, each once. Raises as `meet_judges` does."""
    found = dict[str, _Judged]()
    for cell in suite.cells():
        members = _judged(cell.environment, cell.reward)
        found |= {"/".join(filter(None, (cell.scenario, name))): each for name, each in members.items()}
    _meet(found, suite.main_metric, show, note)


def _judged(settings: EnvironmentConfig, reward: RewardConfig) -> dict[str, _Judged]:
    """Return an environment under no name, or several by theirs."""
    environment = pipeline_environment(settings)
    if isinstance(environment, Several):
        return {name: _Judged(member, reward.of_member(name)) for name, member in environment.members.items()}
    return {"": _Judged(environment, reward)}


def _meet(judged: Mapping[str, _Judged], metric: str, show: Show, note: Note | None) -> None:
    asked, said, seen = list[Judging | None](), list[dict[str, Any]](), list[Specification]()
    for name, each in judged.items():
        specification = specification_of(each.environment)
        if specification is None or specification.judge is None or specification in seen:
            continue
        seen.append(specification)
        _warn_of_comparing(specification, each.reward, metric)
        with show("judge"):
            start_judge(specification.judge)
            if (folder := judges_folder()) is None:
                logger.warning("this process has no home, so that nobody notices if the judge changes between runs")
                continue
            met, judging = meet_canaries(specification, helpers_of(each.environment), folder)
        asked.append(judging)
        said += [{"environment": name, **asdict(one), "has_changed": one.has_changed} for one in met]
        if note is not None:
            note(add_judging(asked), said)
        if not met:
            logger.warning(
                "nobody would notice if the judge %s changed: write `cases` without `task` in its specification, which "
                "are scored again when a run begins",
                specification.judge.model,
            )
        check_unchanged(met, specification.judge)


def _warn_of_comparing(specification: Specification, reward: RewardConfig, metric: str) -> None:
    """Warn if policies are chosen by scores that only say where an attempt stands in its group."""
    rulers = [name for name, each in specification.criteria.items() if each.grader.compares]
    paid = [name for name in rulers if reward.weights.get(name, specification.criteria[name].weight) > 0]
    if paid and (metric == "reward" or reward.full is None):
        choose = "Set" if metric == "accuracy" else "Choose accuracy, and set"
        logger.warning(
            "policies are compared by evaluation.metric: %s, of which %s is a part: it compares attempts of one policy "
            "with each other, so that its mean says nothing about the policy. %s reward.full to what the other "
            "criteria earn",
            metric,
            paid[0],
            choose,
        )
