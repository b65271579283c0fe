"""Looks whether the judges of a reward still score as they did, before they are asked about attempts."""

from __future__ import annotations

import logging
from dataclasses import asdict

from mlops.record.run import Record
from mlops.runtime.runtime import pipeline_environment
from pipelines.showing import Show
from rlft.config import Config, RewardConfig
from rlft.contract.several import Several
from rlft.contract.specified import specification_of
from rlft.environments.specified import helpers_of
from rlft.judges.answers import judges_folder
from rlft.rewards.canaries import check_unchanged, meet_canaries
from rlft.specification import Specification
from rlft.specification.compared import Ruler
from rlft.types import Judging, add_judging

logger = logging.getLogger(__name__)


def meet_judges(config: Config, show: Show, record: Record | None = None) -> None:
    """Ask every judge of a config about its canaries, and note in `record` what they said.

    Raises RewardError for a judge that has changed beyond what repeating explains.
    """
    environment = pipeline_environment(config.environment)
    members = environment.members if isinstance(environment, Several) else {"": environment}
    asked, said = list[Judging | None](), list[dict[str, object]]()
    for name, member in members.items():
        specification = specification_of(member)
        if specification is None or specification.judge is None:
            continue
        _warn_of_comparing(specification, config.reward.of_member(name) if name else config.reward, config)
        if (folder := judges_folder()) is None:
            logger.warning("this process has no home, so that nobody notices if the judge changes between runs")
            return
        with show("judge"):
            met, judging = meet_canaries(specification, helpers_of(member), folder)
        asked.append(judging)
        said += [{"environment": name, **asdict(each), "has_changed": each.has_changed} for each in met]
        if record is not None:
            record.note_judging("canaries", add_judging(asked))
            record.tracker.log_json("judge_canaries.json", said)
        if not met:
            logger.warning(
                "nobody would notice if the judge %s changed: write `cases` without `task` in its specification, which "
                "are scored again when a run begins",
                specification.judge.model,
            )
        check_unchanged(met, specification.judge)


def _warn_of_comparing(specification: Specification, reward: RewardConfig, config: Config) -> None:
    """Warn if policies are chosen by scores that only say where an attempt stands in its group."""
    rulers = [name for name, each in specification.criteria.items() if isinstance(each.grader, Ruler)]
    paid = [name for name in rulers if reward.weights.get(name, specification.criteria[name].weight) > 0]
    if paid and (config.evaluation.metric == "reward" or reward.full is None):
        logger.warning(
            "policies are compared by evaluation.metric: %s, of which %s is a part: it compares attempts of one policy "
            "with each other, so that its mean says nothing about the policy. Choose accuracy, and set reward.full to "
            "what the other criteria earn",
            config.evaluation.metric,
            paid[0],
        )
