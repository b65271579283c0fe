"""What is measured of a single attempt, beside its score."""

from __future__ import annotations

from rlft.types import Reward, Rollout


def measures_of(rollout: Rollout, reward: Reward) -> dict[str, float]:
    """Return numbers about one attempt that did not fail.

    - `completion_length`: tokens after the prompt, told ones included; `sampled_tokens`: those that the model sampled;
      `prompt_tokens`. All three are missing of a model behind an address, whose tokens nobody knows.
    - `clipped`: 1 if a limit cut it off, else 0
    - `turns`, `tool_calls`, `tool_failures`: counts; `tool_failures` are calls that failed or could not be read
    - `seconds`: wall time of the conversation; `score_seconds`: that of scoring it
    """
    found = {
        "clipped": float(rollout.truncated),
        "turns": float(rollout.turns),
        "tool_calls": float(rollout.tool_calls),
        "tool_failures": float(rollout.tool_errors),
        "seconds": rollout.seconds,
        "score_seconds": reward.seconds,
    }
    if len(rollout.token_ids):
        found["completion_length"] = float(rollout.completion_length)
        found["sampled_tokens"] = float(rollout.loss_mask.sum())
        found["prompt_tokens"] = float(rollout.prompt_length)
    return found
