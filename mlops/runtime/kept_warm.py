"""Keeps the state of a run from step to step where all of them run in one process, such as a pod's."""

from __future__ import annotations


def keep_warm() -> None:
    """Let a pipeline's hooks make and end the state of its process once, not with each step. Call in its init hook.

    Only of its local orchestrator ZenML knows that steps share a process. In a pod the first step would end the policy,
    the engine and the handler of SIGTERM, and each one after it would make its own.
    """
    from zenml.execution.pipeline.dynamic.run_context import DynamicPipelineRunContext

    context = DynamicPipelineRunContext.get()
    if context is not None and context.runner.orchestrator.run_init_cleanup_at_step_level:
        type(context.runner.orchestrator).run_init_cleanup_at_step_level = False  # type: ignore[assignment]
