"""What a run needs in a pod: its state is kept from step to step, and another pod goes on with the same run.

Kubernetes makes another pod for the job of a run, with the same command. ZenML goes on with a run that is unfinished,
and takes a step that was being run for failed, which ends the run. It is begun again instead.
"""

from __future__ import annotations

import logging
import os
from typing import Any

logger = logging.getLogger(__name__)


def keep_warm() -> None:
    """Let a pipeline's hooks make and end the state of its process once, not with each step. Call in its init hook.

    Only of its local orchestrator ZenML knows that steps share a process. In a pod the first step would end the policy,
    the engine and the handler of SIGTERM, and each one after it would make its own.
    """
    from zenml.execution.pipeline.dynamic.run_context import DynamicPipelineRunContext

    context = DynamicPipelineRunContext.get()
    if context is not None and context.runner.orchestrator.run_init_cleanup_at_step_level:
        type(context.runner.orchestrator).run_init_cleanup_at_step_level = False  # type: ignore[assignment]


def in_kubernetes() -> bool:
    """Return whether this process runs in a pod of Kubernetes, whose job makes another if it ends with an error."""
    return "KUBERNETES_SERVICE_HOST" in os.environ


def take_over() -> None:
    """Let the steps be run again that an earlier pod of the same run was running. Call before the pipeline's body.

    ZenML allows another attempt at a step only as a retry. So such a step, and no other, gets one, which is not tried
    once more in this process if it fails.
    """
    from zenml.config.retry_config import StepRetryConfig
    from zenml.enums import ExecutionStatus
    from zenml.execution.pipeline.dynamic.run_context import DynamicPipelineRunContext

    context = DynamicPipelineRunContext.get()
    if context is None or not in_kubernetes():
        return
    found, run_step = context.runner._existing_step_runs, context.runner._run_sync_step
    cut_short = {name: step.version for name, step in found.items() if step.status == ExecutionStatus.RUNNING}
    for name in cut_short:
        logger.warning("an earlier pod was ended in %s, which is begun again", name)
        del found[name]

    def run_again(step: Any, remaining_retries: int | None = None) -> Any:
        if (attempts := cut_short.pop(step.spec.invocation_id, None)) is None:
            return run_step(step=step, remaining_retries=remaining_retries)
        config = step.config.model_copy(update={"retry": StepRetryConfig(max_retries=attempts)})
        return run_step(step=step.model_copy(update={"config": config}), remaining_retries=0)

    context.runner._run_sync_step = run_again  # type: ignore[method-assign]
