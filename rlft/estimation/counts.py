"""How many tasks a run evaluates its policies on: as a past run did, or as its tasks are read now."""

from __future__ import annotations

from rlft.config import Config
from rlft.estimation.records import PastRun, attempts_of
from rlft.estimation.work import TaskCounts
from rlft.tasks import ingest_tasks
from rlft.types import TaskSet


def counts_of(run: PastRun, config: Config) -> TaskCounts | None:
    """Return how many tasks a past run has evaluated its policies on; `None` if a run of this config may have others.

    It may if any setting of `tasks` is another, and if more tasks of `test` may be attempted for pass@k than were.
    """
    now, before = config.model_dump(mode="json"), run.settings
    if now["tasks"] != before["tasks"]:
        return None
    each, often = before["evaluation"]["num_generations"], config.evaluation.pass_at_k
    test = attempts_of(run, "generate_rollouts_pass_at_k_.*") // before["baseline"]["num_generations"]
    if often and not test:
        return None
    if often and test == before["baseline"]["num_tasks"] < config.baseline.num_tasks:  # there may be more
        return None
    validation = attempts_of(run, "generate_rollouts_validation_.*") // each
    return TaskCounts(validation, test, attempts_of(run, "generate_rollouts_trained") // each)


def counts_now(config: Config) -> TaskCounts:
    """Read the tasks of a config, and count them. Raises TaskError as `ingest_tasks` does."""
    return counts_in(ingest_tasks(config.tasks, environment=config.environment.name, seed=config.tasks.seed))


def counts_in(tasks: TaskSet) -> TaskCounts:
    """Return how many tasks the splits have."""
    final = sum(len(tasks.split(split)) for split in ("gate", "test", "off_distribution"))
    return TaskCounts(len(tasks.split("validation")), len(tasks.split("test")), final)
