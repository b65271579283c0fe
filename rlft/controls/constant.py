"""The best constant answer: what a policy would earn that says the same to every task, or nothing."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rlft.comparison import is_better
from rlft.config import HarnessConfig, RewardConfig
from rlft.contract.base import BaseEnv
from rlft.errors import RlftError
from rlft.evaluation import evaluate_rollouts
from rlft.harness.scripted import Part, as_script, play_scripts
from rlft.progress import Progress, silent
from rlft.rewards.harmless import CONSTANT
from rlft.rewards.scoring import score_rollouts
from rlft.tasks.splits import sample_tasks
from rlft.types import Evaluation, EvaluationReport, Rollouts, Split, Task, TaskSet

logger = logging.getLogger(__name__)

_VALIDATED = 100  # validation tasks on which a candidate is tried, as a reward may be slow
_COMMON_ANSWERS = 3  # right answers of train tasks that are tried, the most common ones
_LARGEST_SAMPLE = 1000  # train tasks whose right answers are counted


@dataclass(frozen=True, slots=True)
class ConstantAnswer(Evaluation):
    """The best constant answer, and what each candidate reached on validation in the metric that was asked for."""

    text: str = ""
    tried: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The answer as a person reads it."""
        return repr(self.text[:40]) if self.text else "saying nothing"


def best_constant(
    tasks: TaskSet,
    said: Sequence[str],
    environment: BaseEnv,
    reward: RewardConfig,
    harness: HarnessConfig,
    *,
    metric: str,
    splits: Sequence[Split],
    progress: Progress = silent,
) -> ConstantAnswer:
    """Choose a constant answer on `validation`, and evaluate it on `splits`; no split has a report if all scores fail.

    The candidates are no answer at all, "I do not know.", the most common right answers of train tasks, and `said`,
    completions that policies gave often. Errors count against an answer, as in `rlft.comparison.is_better`; of equally
    good ones the first is taken. What stops the scoring of an answer leaves it out, with a warning, as a policy
    has been trained by now.
    """
    chosen: tuple[str, EvaluationReport] | None = None
    tried: dict[str, float] = {}
    validation = sample_tasks(tasks.split("validation"), _VALIDATED)
    for text in dict.fromkeys(["", CONSTANT, *_common_answers(tasks.split("train"), environment), *said]):
        found = _evaluate(text, validation, tasks, environment, reward, harness, progress).get("validation")
        if found is None or metric not in found.metrics:
            continue
        tried[text] = found.metrics[metric].mean
        if is_better(found, chosen and chosen[1], metric):
            chosen = text, found
    if chosen is None:
        return ConstantAnswer({})
    text = chosen[0]
    last = [task for split in splits for task in tasks.split(split)]
    return ConstantAnswer(
        splits=_evaluate(text, last, tasks, environment, reward, harness, progress), text=text, tried=tried
    )


def _common_answers(tasks: Sequence[Task], environment: BaseEnv) -> list[str]:
    """Return the most common right answers that are a single message without calls."""
    golds = (_gold(task, environment) for task in sample_tasks(tasks, _LARGEST_SAMPLE))
    counts = Counter(gold for gold in golds if isinstance(gold, str))
    return [text for text, _ in sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:_COMMON_ANSWERS]]


def _gold(task: Task, environment: BaseEnv) -> object:
    try:
        return environment.gold_completion(task)
    except Exception:  # the environment's code; the audit and the check report what it raises
        return None


def _evaluate(
    text: str,
    chosen: Sequence[Task],
    tasks: TaskSet,
    environment: BaseEnv,
    reward: RewardConfig,
    harness: HarnessConfig,
    progress: Progress,
) -> dict[str, EvaluationReport]:
    """Return {split: report} of a policy that answers each of these tasks with this text; nothing if that fails."""
    script = as_script(text)
    parts = [Part(f"constant-{task.id}", task, script) for task in chosen]
    try:
        rollouts = Rollouts(tuple(play_scripts(parts, environment, harness, progress=progress)))
        rewards = score_rollouts(
            rollouts,
            tasks.by_id(),
            environment,
            weights=reward.weights,
            full=reward.full,
            timeout_seconds=reward.timeout_seconds,
            workers=reward.workers(),
            progress=progress,
        )
    except RlftError as error:
        logger.warning("the constant answer %r is left out of the controls: %s", text[:40], error)
        return {}
    reports = evaluate_rollouts(rollouts, rewards, tasks)
    return {split: replace(report, policy=f"constant answer {text[:40]!r}") for split, report in reports.items()}
