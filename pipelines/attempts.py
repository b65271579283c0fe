"""Shows attempts of a round in MLflow: conversations as traces, and a page of those that were paid most."""

from __future__ import annotations

from mlops.summary.result import highest_paid_file
from mlops.tracking.run import Tracker
from mlops.tracking.traces import choose_rollouts, log_rollout_traces
from pipelines.stages import Artifact, Scored
from rlft.config import Config
from rlft.report.highest_paid import highest_paid, highest_paid_page
from rlft.types import Rewards, Rollouts, TaskSet


def show_attempts(tracker: Tracker, scored: Scored, number: int, tasks: Artifact, config: Config) -> None:
    """Store what `config.tracking` asks for of a round. Nothing is read while MLflow is away."""
    settings = config.tracking
    traced = settings.trace_every > 0 and number % settings.trace_every == 0
    if not (traced or settings.highest_paid) or tracker.run_id is None or tracker.is_away:
        return
    rollouts, rewards, all_tasks = scored.rollouts.load(), scored.rewards.load(), tasks.load()
    if settings.highest_paid:
        _show_highest_paid(tracker, rollouts, rewards, number, all_tasks, settings.highest_paid)
    if traced:
        _trace(tracker, rollouts, rewards, number, all_tasks, settings.trace_rollouts)


def _show_highest_paid(
    tracker: Tracker, rollouts: Rollouts, rewards: Rewards, number: int, tasks: TaskSet, count: int
) -> None:
    if attempts := highest_paid(rollouts, rewards, tasks.by_id(), count):
        page = highest_paid_page(tracker.run_name, number, attempts, len(rollouts))
        tracker.log_text(highest_paid_file(number), page)


def _trace(tracker: Tracker, rollouts: Rollouts, rewards: Rewards, number: int, tasks: TaskSet, count: int) -> None:
    if tracker.run_id is None or tracker.experiment_id is None:
        return
    where = (tracker.tracking_uri, tracker.experiment_id, tracker.run_id)
    stored = log_rollout_traces(*where, choose_rollouts(rollouts, rewards, count), rewards, tasks, number)
    tracker.log_metrics({"traces/stored": float(stored)}, step=number + 1)
