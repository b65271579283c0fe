"""The step `try_set_up` makes what a run begins with, and nothing of what takes long."""

from zenml import step

from mlops.runtime.runtime import current_runtime
from rlft.config import EnvironmentConfig, TrainingConfig
from rlft.contract.base import prompt_messages
from rlft.readiness.loss import check_loss
from rlft.types import TaskSet


@step(enable_cache=False)
def try_set_up(tasks: TaskSet, environment: EnvironmentConfig, training: TrainingConfig) -> None:
    """Build the environment, ask it for the prompt of a task, and call the loss on a few tokens."""
    prompt_messages(tasks.tasks[0], current_runtime().unjudged(environment))
    check_loss(training)
