"""Tags the artifacts that a step makes with their round of training."""

from __future__ import annotations

import re

from zenml.steps.step_context import StepContext, get_step_context

_ROUND_STEPS = ("generate_rollouts", "score_rewards", "train_grpo")


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


def round_of(step_id: str) -> int | None:
    """Return the round that a step of this id belongs to: 7 for `train_grpo_r007`, none for `..._validation_r007`."""
    found = re.fullmatch(rf"(?:{'|'.join(_ROUND_STEPS)})_r([0-9]+)", step_id)
    return int(found[1]) if found else None
