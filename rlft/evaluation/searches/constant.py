"""The best constant answer: what a policy would earn that says the same to every task, or nothing."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rlft.config import HarnessConfig, RewardConfig
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.several import Several
from rlft.errors import JudgeGoneError, RlftError
from rlft.evaluation.comparison import is_better
from rlft.evaluation.evaluate import evaluate_rollouts
from rlft.harness.scripted import Part, as_script, play_scripts
from rlft.progress import Progress, silent
from rlft.rewards.scores import CONSTANT
from rlft.rewards.scoring import score_rollouts
from rlft.rewards.specification.grader import billed
from rlft.tasks.splits import sample_tasks
from rlft.types import Evaluation, EvaluationReport, Rollouts, Split, Task, TaskSet

logger = logging.getLogger(__name__)

_VALIDATED = 100  # validation tasks on which a candidate is tried, as a reward may be slow
_COMMON_ANSWERS = 3  # right answers of train tasks that are tried, the most common ones
_LARGEST_SAMPLE = 1000  # train tasks whose right answers are counted


@dataclass(frozen=True, slots=True)
class ConstantAnswer(Evaluation):
    """The best constant answer, and what each candidate reached on validation in the metric that was asked for.

    Of several environments each has an answer of its own in `texts`, by its name, and `text` is empty.
    """

    text: str = ""
    tried: dict[str, float] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The answer as a person reads it."""
        if self.texts:
            return ", ".join(f"{_shown(text)} in {name}" for name, text in self.texts.items())
        return _shown(self.text)


@billed
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
    completions that policies gave often. Of several environments each has a constant answer of its own. Errors count
    against an answer, as in `is_better`; of equally good ones the first is taken. What stops the
    scoring of an answer leaves it out, with a warning, as a policy has been trained by now; a judge that is gone raises
    JudgeGoneError.
    """
    member_of = _member_of(environment)

    def evaluate(texts: Mapping[str, str], chosen: Sequence[Task]) -> dict[str, EvaluationReport]:
        scripts = {name: as_script(text) for name, text in texts.items()}
        parts = [Part(f"constant-{task.id}", task, scripts[member_of(task)]) for task in chosen]
        return _evaluate(_listed(texts), parts, tasks, environment, reward, harness, progress)

    texts: dict[str, str] = {}
    tried: dict[str, float] = {}
    for name in dict.fromkeys(map(member_of, tasks.tasks)):
        train, validation = (
            [task for task in tasks.split(split) if member_of(task) == name] for split in ("train", "validation")
        )
        validation, best = sample_tasks(validation, _VALIDATED), None
        for text in dict.fromkeys(["", CONSTANT, *_common_answers(train, environment), *said]):
            found = evaluate({name: text}, validation).get("validation")
            if found is None or metric not in found.metrics:
                continue
            tried[_listed({name: text})] = found.metrics[metric].mean
            if is_better(found, best, metric):
                texts[name], best = text, found
        if best is None:
            return ConstantAnswer({})
    last = [task for split in splits for task in tasks.split(split)]
    own = {} if "" in texts else texts
    return ConstantAnswer(splits=evaluate(texts, last), text=texts.get("", ""), tried=tried, texts=own)


def _shown(text: str) -> str:
    return repr(text[:40]) if text else "saying nothing"


def _member_of(environment: BaseEnv) -> Callable[[Task], str]:
    """Return what says to which of several environments a task belongs; all belong to one without a name else."""
    return (lambda task: task.environment) if isinstance(environment, Several) else (lambda task: "")


def _listed(texts: Mapping[str, str]) -> str:
    """Return the text of one environment, or each text with its environment's name."""
    return texts[""] if "" in texts else "; ".join(f"{name}: {text}" for name, text in texts.items())


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
    parts: Sequence[Part],
    tasks: TaskSet,
    environment: BaseEnv,
    reward: RewardConfig,
    harness: HarnessConfig,
    progress: Progress,
) -> dict[str, EvaluationReport]:
    """Return {split: report} of a policy that makes these attempts, named by their `text`; nothing if that fails.

    Raises JudgeGoneError.
    """
    try:
        rollouts = Rollouts(tuple(play_scripts(parts, environment, harness, progress=progress)))
        rewards = score_rollouts(rollouts, tasks.by_id(), environment, reward, progress=progress)
    except JudgeGoneError:  # it concerns every answer, and a run that is resumed has its policies still
        raise
    except RlftError as error:
        logger.warning("the constant answer %r is left out of the controls: %s", text[:40], error)
        return {}
    reports = evaluate_rollouts(rollouts, rewards, tasks)
    return {split: replace(report, policy=f"constant answer {text[:40]!r}") for split, report in reports.items()}
