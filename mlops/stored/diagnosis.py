"""What `rlft.diagnosis` needs to know of a run, from the run itself as it ends or from what a past one has stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mlops.home.folder import Home
from mlops.ids import EVALUATION, TRAIN_REPORT, round_name, validation_name
from mlops.runs.settings import stored_config
from mlops.stored.rollouts import attempts, stored_output, stored_tasks
from mlops.stored.summaries import stored_summary
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


def stored_change(home: Home, run: str) -> Difference | None:
    """Return how the trained model of a run differs from its start on the test split; `None` if nobody measured it."""
    from mlops.runs.finding import find_run

    summary = stored_summary(home, find_run(run))
    return summary.difference if summary is not None else None


def stored_history(run: str) -> History:
    """Return the history of a past run from the stores of this process's stack; `run` is its id or name.

    Raises RlftError for a run that has trained no round.
    """
    from mlops.runs.finding import find_run, refuse_others

    found = find_run(run)
    refuse_others(found, "diagnose the run whose attempts it has used; `rlft ui` shows its own curves")
    rounds, validations = stored_curves(found)
    if not rounds:
        raise RlftError(
            f"{found.name} has finished no round",
            where="RUN",
            fix="`rlft runs` says how it ended; `rlft resume` goes on with one that was cut short",
        )
    tasks = stored_tasks(found)
    config, baseline = _config_of(found), stored_output(found, EVALUATION, "baseline")
    if baseline is not None:
        config = config.comparing(compared_by(config.evaluation.metric, baseline.splits["validation"]))
    return make_history(config, rounds, validations, 0 if tasks is None else len(tasks.split("train")))


def stored_curves(run: Any) -> tuple[list[TrainReport], dict[int, EvaluationReport]]:
    """Return the reports of a run's rounds, and its validations by the number of rounds before them."""
    rounds, validations = list(_rounds(run)), {}
    for number in range(len(rounds) + 1):
        if (evaluation := stored_output(run, EVALUATION, validation_name(number))) is not None:
            validations[number] = evaluation.splits["validation"]
    return rounds, validations


def _rounds(run: Any) -> Iterator[TrainReport]:
    """Yield the reports of a run's rounds, up to the first that it has not."""
    number = 0
    while (report := stored_output(run, TRAIN_REPORT, round_name(number))) is not None:
        yield report
        number += 1


def _config_of(run: Any) -> Config:
    """Return the config of the newest attempt at a run that has one."""
    from mlops.runs.finding import name_of

    for attempt in attempts(run):
        if content := (attempt.config.parameters or {}).get("config"):
            return stored_config(content, name_of(run))
    raise RlftError(f"the settings of {run.name} are not stored", where="RUN", fix="diagnose a newer run")
