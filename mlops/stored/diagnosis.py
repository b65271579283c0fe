"""What `rlft.diagnosis` needs to know of a run, from the run itself as it ends or from what a past one has stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mlops.ids import EVALUATION, TRAIN_REPORT, round_name, validation_name
from mlops.runs.settings import stored_config
from mlops.stored.rollouts import Run, refuse_others, stored_tasks
from mlops.summary.sections import Difference
from rlft.config import Config
from rlft.diagnosis import History
from rlft.errors import RlftError
from rlft.evaluation import compared_by
from rlft.types import EvaluationReport, TrainReport


def make_history(
    config: Config, rounds: Sequence[TrainReport], validations: Mapping[int, EvaluationReport], train_tasks: int
) -> History:
    """Return the curves of a run with the settings of its config that a diagnosis names."""
    training = config.training
    return History(
        rounds=rounds,
        validations=validations,
        metric=config.chosen_by,
        train_tasks=train_tasks,
        num_generations=training.num_generations,
        learning_rate=training.learning_rate,
        max_completion_length=config.rollout.max_completion_length,
        beta=training.beta,
        scale_rewards=training.scale_rewards,
        honest=config.monitors.honest or "",
        trains="adapter" if config.policy.lora else "random" if config.policy.from_scratch else "all",
    )


def stored_change(run: Run) -> Difference | None:
    """Return how the trained model of a run differs from its start on the test split; `None` if nobody measured it."""
    summary = run.summary()
    return summary.difference if summary is not None else None


def stored_history(run: Run) -> History:
    """Return the history of a past run. Raises RlftError for a run that has trained no round."""
    refuse_others(run, "diagnose the run whose attempts it has used; `rlft ui` shows its own curves")
    rounds, validations = stored_curves(run)
    if not rounds:
        raise RlftError(
            f"{run.name} has finished no round",
            where="RUN",
            fix="`rlft runs` says how it ended; `rlft resume` goes on with one that was cut short",
        )
    tasks = stored_tasks(run)
    config, baseline = stored_config(run.config, run.name), run.output(EVALUATION, "baseline")
    if baseline is not None:
        config = config.comparing(compared_by(config.evaluation.metric, baseline.splits["validation"]))
    return make_history(config, rounds, validations, 0 if tasks is None else len(tasks.split("train")))


def stored_curves(run: Run) -> tuple[list[TrainReport], dict[int, EvaluationReport]]:
    """Return the reports of a run's rounds, and its validations by the number of rounds before them."""
    rounds, validations = list(_rounds(run)), {}
    for number in range(len(rounds) + 1):
        if (evaluation := run.output(EVALUATION, validation_name(number))) is not None:
            validations[number] = evaluation.splits["validation"]
    return rounds, validations


def _rounds(run: Run) -> Iterator[TrainReport]:
    """Yield the reports of a run's rounds, up to the first that it has not."""
    number = 0
    while (report := run.output(TRAIN_REPORT, round_name(number))) is not None:
        yield report
        number += 1
