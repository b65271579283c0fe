"""Tags the artifacts that a step makes with their round of training."""

from __future__ import annotations

from zenml.steps.step_context import StepContext, get_step_context

from mlops.ids import round_of


def tag_round(*outputs: str) -> None:
    """Tag outputs of the running step `round=N` if its id is that of a round of training, such as `train_grpo_r007`.

    N counts from 0, as in the id. A validation between rounds belongs to no round, and outside a step nothing is done.
    """
    if StepContext.get() is None:
        return
    context = get_step_context()
    number = round_of(context.step_run.name)
    if number is not None:
        for output in outputs:
            context.add_output_tags([f"round={number}"], output)
