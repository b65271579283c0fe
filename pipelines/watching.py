"""Asks the monitors after each round of a run, and says what they have seen."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from mlops.runs.results import make_history
from mlops.runs.runtime import pipeline_environment
from mlops.tracking.run import Tracker
from pipelines.rounds import Rounds
from pipelines.stages import Artifact, Scored, Stages
from rlft.config import Config
from rlft.config.training import Action
from rlft.errors import FixedSettingError
from rlft.evaluation.diagnosis.monitors import PAID_ATTACKS, watch
from rlft.harness.opening import open_playground
from rlft.rewards.audit.matching import Matcher, paid_attacks
from rlft.types import EvaluationReport, TaskSet, TrainReport

logger = logging.getLogger(__name__)


@dataclass
class Watch:
    """The monitors of a run, which are asked after each round; `actions` are by default those of the config."""

    stages: Stages
    tasks: Artifact
    tracker: Tracker
    actions: Mapping[str, Action] | None = None
    _sees_attacks: bool = field(init=False, default=True)
    _attacks: dict[int, float] = field(init=False, default_factory=dict)  # by round, the share that are paid attacks

    def __call__(self, rounds: Rounds, scored: Scored) -> str:
        """Note in `rounds` what the monitors see for the first time, and return why training ends by it, if it does.

        `scored` is what the last round was trained on.
        """
        config, number = self.stages.config, rounds.reports[-1].round
        self._count_attacks(rounds, scored, number)
        reports = [self._with_attacks(report) for report in rounds.reports]
        history = make_history(config, reports, rounds.validated, len(self._task_set.split("train")))
        planned = config.training.rounds
        looks = {"rounds": planned, "validations": math.ceil(planned / config.evaluation.validate_every)}
        new = [alarm for alarm in watch(history, self._actions, **looks) if alarm.monitor not in rounds.alarms]
        for alarm in new:
            rounds.alarms[alarm.monitor] = alarm
            level = logging.INFO if alarm.action == "note" else logging.WARNING
            logger.log(level, "monitor %s: %s", alarm.monitor, alarm.text)
        if new:
            self.tracker.log_metrics({f"monitors/{alarm.monitor}": 1.0 for alarm in new}, step=number + 1)
            self.tracker.log_json("monitors.json", [dataclasses.asdict(each) for each in rounds.alarms.values()])
        return next((f"monitor {alarm.monitor}: {alarm.what}" for alarm in new if alarm.action == "stop"), "")

    def _count_attacks(self, rounds: Rounds, scored: Scored, number: int) -> None:
        """Note which share of the attempts of the last round is a known attack that is paid."""
        least = rounds.reports[0].metrics.get("reward")
        if least is None or not self._sees_attacks or self._actions.get("known_attacks", "off") == "off":
            return
        try:
            share, kinds = paid_attacks(self._matcher, scored.rollouts.load(), scored.rewards.load(), least)
        except Exception as cause:  # golds and attacks are said by the environment's code; no look is worth a run
            logger.warning("whether attempts are known attacks is not looked at: %s: %s", type(cause).__name__, cause)
            self._sees_attacks = False
            return
        if kinds:
            counts = ", ".join(f"{kind} ({count})" for kind, count in list(kinds.items())[:3])
            logger.info("round %d: %.1f %% of the attempts are paid attacks: %s", number, 100 * share, counts)
        self._attacks[number] = share
        self.tracker.log_metrics({PAID_ATTACKS: share}, step=number + 1)

    def _with_attacks(self, report: TrainReport) -> TrainReport:
        """Return the report of a round with what was counted here; the one that is stored stays as it is."""
        counted = {PAID_ATTACKS: self._attacks[report.round]} if report.round in self._attacks else {}
        return dataclasses.replace(report, metrics={**report.metrics, **counted})

    @property
    def _actions(self) -> Mapping[str, Action]:
        return self.stages.config.monitors.actions() if self.actions is None else self.actions

    @cached_property
    def _task_set(self) -> TaskSet:
        return self.tasks.load()

    @cached_property
    def _matcher(self) -> Matcher:
        config = self.stages.config
        environment = pipeline_environment(config.environment)
        return Matcher(
            {task.id: task for task in self._task_set.split("train")},
            environment,
            open_playground(environment, config.harness).tools,
            config.reward.accept_exploits,
            config.seed,
        )


def check_honest(report: EvaluationReport, config: Config) -> None:
    """Raise FixedSettingError if the reward has no part that `monitors.honest` names, as a first evaluation shows."""
    honest = config.monitors.honest
    if honest is None or report.per_task.get(f"rewards/{honest}") or not report.per_task.get("reward"):
        return
    parts = [name.removeprefix("rewards/") for name in report.per_task if name.startswith("rewards/")]
    raise FixedSettingError(
        f"no attempt was given a score for the part {honest!r}",
        where="monitors.honest",
        fix=f"name one of {', '.join(parts)}, or let the environment score it (a `@metric`, which has weight 0)",
    )
