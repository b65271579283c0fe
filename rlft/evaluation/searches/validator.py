"""What all searches share: sampling and validation as in GRPO, learning rates to try, and the best checkpoint.

Tasks, seeds and reward are those by which the pipeline samples and validates, of a policy that is in memory.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from rlft.config import EnvironmentConfig, RewardConfig, Section, TrainingConfig, WarmStartConfig
from rlft.engines.base import Engine
from rlft.environments.contract.base import BaseEnv
from rlft.evaluation.comparison import guarded_mean, is_better
from rlft.evaluation.evaluate import evaluate_rollouts
from rlft.harness.rollout import Player, PolicyPlayer, SamplingSettings, collect_rollouts
from rlft.models import Policy
from rlft.models.flops import ROLLOUT_FLOPS
from rlft.progress import Progress, silent
from rlft.rewards.scoring import score_rollouts
from rlft.types import EvaluationReport, Judging, Report, Rewards, Rollouts, Task, TaskSet


class Validation(Section):
    """Says how policies are validated: where, by which reward, sampled how, and compared by what.

    `fingerprint` is that of the code of the environment and its reward, for cache keys.
    """

    environment: EnvironmentConfig
    reward: RewardConfig
    sampling: SamplingSettings
    num_generations: int
    metric: str
    fingerprint: str


class Terms(Section):
    """Says by which terms an arm is made: those of the rounds that it stands beside.

    Training had `training`, sampled by `sampling` for so many `rounds`, and was validated after each `validate_every`
    of them. `flops` is what the search may spend, validations included, of which one is expected to cost
    `validation_flops`. Where `flops` are `None` nobody knows them, and nothing bounds the search; where
    `validation_flops` are, the first validation tells.
    """

    warm_start: WarmStartConfig | None = None
    training: TrainingConfig | None = None
    sampling: SamplingSettings | None = None
    rounds: int = 0
    validate_every: int = 1
    flops: float | None = None
    validation_flops: float | None = None

    @property
    def usual(self) -> WarmStartConfig:
        """The settings by which answers are imitated: those of the warm start, if there is one."""
        return self.warm_start or WarmStartConfig(steps=1)

    def middle_rate(self, policy: Policy) -> float:
        """Return the learning rate around which others are tried: that of the warm start, else a usual one."""
        return self.warm_start.learning_rate if self.warm_start else usual_rate(policy)


@dataclass(frozen=True, slots=True)
class Validator:
    """Holds what a validation needs beside the policy; `metric` is `evaluation.metric`.

    `engine` samples from policies. It is `None` where a model behind an address attempts the tasks.
    """

    tasks: TaskSet
    environment: BaseEnv
    engine: Engine | None
    sampling: SamplingSettings
    reward: RewardConfig
    num_generations: int
    metric: str
    progress: Progress = silent

    @classmethod
    def of(
        cls, validation: Validation, tasks: TaskSet, environment: BaseEnv, engine: Engine | None, progress: Progress
    ) -> Validator:
        """Return what validates as the settings say."""
        sampling, reward = validation.sampling, validation.reward
        return cls(
            tasks, environment, engine, sampling, reward, validation.num_generations, validation.metric, progress
        )

    def validate(self, policy: Policy) -> tuple[EvaluationReport, float]:
        """Return the report of a policy on `validation`, and the FLOPs of sampling for it."""
        report, measured = self.validate_player(self.player_of(policy))
        return report, measured[ROLLOUT_FLOPS]

    def validate_player(self, player: Player) -> tuple[EvaluationReport, dict[str, float]]:
        """Return the report of what attempts `validation`, and what was measured meanwhile."""
        tasks = self.tasks.split("validation")
        rollouts, rewards = self.attempt(
            player, tasks, self.sampling, num_generations=self.num_generations, round=0, label="evaluation"
        )
        return evaluate_rollouts(rollouts, rewards, self.tasks)["validation"], rollouts.metrics

    def player_of(self, policy: Policy) -> PolicyPlayer:
        """Return the policy with the engine, which has loaded it."""
        assert self.engine is not None
        self.engine.load_policy(policy)
        return PolicyPlayer(policy, self.engine)

    def attempt(
        self,
        player: Player,
        tasks: Sequence[Task],
        sampling: SamplingSettings,
        *,
        num_generations: int,
        round: int,
        label: str,
    ) -> tuple[Rollouts, Rewards]:
        """Attempt tasks as the pipeline does under this label and round, and score the attempts."""
        rollouts = collect_rollouts(
            tasks,
            self.environment,
            player,
            sampling,
            num_generations=num_generations,
            round=round,
            label=label,
            progress=self.progress,
        )
        by_id = self.tasks.by_id()
        return rollouts, score_rollouts(rollouts, by_id, self.environment, self.reward, progress=self.progress)


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Candidate:
    """Reports a checkpoint: its learning rate, the steps to it, and the mean in validation, errors counted as lowest.

    `validation` is `None` where nothing could be scored, or where the numbers of training went wrong. `form` says what
    was imitated: of SFT whose answers, of rejection sampling which attempts; this also says how many `rounds` it had
    done.
    """

    learning_rate: float
    steps: int
    validation: float | None
    rounds: int = 0
    form: str = ""


@dataclass(frozen=True, slots=True)
class ControlReport(Report):
    """Reports a control: FLOPs `spent` of its `budget`, wall seconds, and the checkpoints, of which `chosen` is best.

    `demonstrations` is how many answers it imitated; of rejection sampling, how many of its `attempts`, trials
    included. `losses` are those of each step of the training that the chosen checkpoint is from, in nats per imitated
    token. SFT also says whose `answers` the chosen checkpoint imitates (`rlft.training.demonstrations`), and how many
    tokens these have after their prompts, in the mean. `judging` is what judges were asked, `None` if none was.
    """

    passing: ClassVar[frozenset[str]] = Report.passing | {"judging"}

    budget: float
    spent: float
    seconds: float
    demonstrations: int
    metric: str
    candidates: tuple[Candidate, ...] = ()
    chosen: Candidate | None = None
    losses: tuple[float, ...] = ()
    attempts: int = 0
    answers: str = ""
    answer_tokens: float = 0.0
    judging: Judging | None = None


class Best:
    """Validates checkpoints of `policy`, and keeps the weights of the best one; at first those that it has now."""

    def __init__(self, policy: Policy, validator: Validator) -> None:
        self._policy, self._judge, self._began = policy, validator, time.perf_counter()
        self._start = self._weights = _copy(policy)
        self._reports: list[tuple[Candidate, EvaluationReport]] = []
        self.candidates: list[Candidate] = []
        self.chosen: Candidate | None = None
        self.losses: tuple[float, ...] = ()

    def validate(self, learning_rate: float, losses: Sequence[float], *, rounds: int = 0, form: str = "") -> float:
        """Validate the policy after one step for each of `losses`; return the FLOPs that this took."""
        report, flops = self._judge.validate(self._policy)
        metric = self._judge.metric
        found = Candidate(learning_rate, len(losses), guarded_mean(report, metric), rounds, form)
        self.candidates.append(found)
        logger.info("control validated by %s: %s", metric, found)
        self._reports.append((found, report))
        if self.leading() is found:
            self._weights, self.chosen, self.losses = _copy(self._policy), found, tuple(losses)
        return flops

    def report(self, terms: Terms, spent: float, demonstrations: int, **more: Any) -> ControlReport:
        """Return what was tried since this was made, and what did best."""
        return ControlReport(
            budget=terms.flops or 0.0,
            spent=spent,
            seconds=time.perf_counter() - self._began,
            demonstrations=demonstrations,
            metric=self._judge.metric,
            candidates=tuple(self.candidates),
            chosen=self.chosen,
            losses=self.losses,
            **more,
        )

    def leading(self, form: str | None = None) -> Candidate | None:
        """Return the best checkpoint so far, of this form if one is given; the first of several equally good ones."""
        best: tuple[Candidate, EvaluationReport] | None = None
        for found, report in self._reports:
            if form in (None, found.form) and is_better(report, best and best[1], self._judge.metric):
                best = found, report
        return best and best[0]

    def restart(self) -> None:
        """Give the policy the weights that it had at first."""
        _restore(self._policy, self._start)

    def restore(self) -> None:
        """Give the policy the weights of the best checkpoint."""
        _restore(self._policy, self._weights)


def _copy(policy: Policy) -> dict[str, Tensor]:
    """Return the trained weights; in main memory, since that of a GPU may hold no further copy."""
    return {name: parameter.detach().to("cpu", copy=True) for name, parameter in policy.trainable().items()}


@torch.no_grad()
def _restore(policy: Policy, weights: dict[str, Tensor]) -> None:
    for name, parameter in policy.trainable().items():
        parameter.copy_(weights[name])
    policy.optimizer = None
    policy.note_change(update=0)


# Of the given learning rate. The middle one comes first, as of equally good ones the first is taken.
FACTORS = (1.0, 1 / 3, 3.0)
# Learning rates of AdamW without a warm start whose rate is known: of random weights, of an adapter, of a whole model.
SCRATCH_RATE, ADAPTER_RATE, FULL_RATE = 1e-3, 2e-4, 1e-5


def usual_rate(policy: Policy) -> float:
    """Return the learning rate that is usual for such a policy."""
    metadata = policy.metadata
    if metadata.base_model is None:
        return SCRATCH_RATE
    return ADAPTER_RATE if metadata.kind == "adapter" else FULL_RATE


def rate_after_trials(best: Candidate | None, middle: float) -> float:
    """Return the learning rate of the best trial; the lowest around `middle` if the numbers of all went wrong."""
    return best.learning_rate if best else middle * min(FACTORS)
