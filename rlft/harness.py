"""The turns between a policy and an environment. So far one: the policy answers, and that is the attempt."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from rlft.engines.base import Engine, Generation, Sampling
from rlft.environments.base import BaseEnv, prompt_messages
from rlft.policy import Policy
from rlft.policy.tokens import completion_text, render_prompt
from rlft.types import Message, Rollout, Task


@dataclass(frozen=True, slots=True)
class Attempt:
    """A task that is to be attempted, with the identity and seed of the attempt."""

    rollout_id: str
    task: Task
    sample: int
    round: int
    seed: int


def run_single_turn(
    attempts: Sequence[Attempt],
    environment: BaseEnv,
    policy: Policy,
    engine: Engine,
    sampling: Sampling,
    *,
    environment_fingerprint: str,
) -> list[Rollout]:
    """Attempt every task with one answer, all in one call of the engine; rollouts come in the order of `attempts`.

    The loss mask covers the sampled tokens, the sampled end token included. A prompt that the model's context cannot
    hold is an error of its rollouts, and so is an engine that did not answer.
    """
    conversations = [prompt_messages(attempt.task, environment) for attempt in attempts]
    rendered: dict[str, list[int]] = {}
    for attempt, messages in zip(attempts, conversations, strict=True):
        if attempt.task.id not in rendered:
            rendered[attempt.task.id] = render_prompt(policy.tokenizer, messages)
    prompts = [rendered[attempt.task.id] for attempt in attempts]
    fits = [policy.context_length is None or len(prompt) < policy.context_length for prompt in prompts]
    started = time.perf_counter()
    sampled = iter(
        engine.generate(list(compress(prompts, fits)), sampling, [attempt.seed for attempt in compress(attempts, fits)])
    )
    seconds = (time.perf_counter() - started) / max(len(attempts), 1)
    return [
        _record(
            attempt,
            messages,
            prompt,
            next(sampled) if fit else None,
            policy,
            sampling,
            environment_fingerprint,
            seconds,
        )
        for attempt, messages, prompt, fit in zip(attempts, conversations, prompts, fits, strict=True)
    ]


def _record(
    attempt: Attempt,
    messages: tuple[Message, ...],
    prompt: list[int],
    generation: Generation | None,
    policy: Policy,
    sampling: Sampling,
    environment_fingerprint: str,
    seconds: float,
) -> Rollout:
    """One rollout from what was sampled, or an errored one if nothing could be; the text is derived from the tokens."""
    if generation is None:
        generation = Generation.failed(
            f"prompt: {len(prompt)} tokens do not fit the model's context of {policy.context_length}"
        )
    text = completion_text(policy.tokenizer, generation.token_ids.tolist())
    answer: Message = {"role": "assistant", "content": text}
    before = len(prompt)
    return Rollout(
        rollout_id=attempt.rollout_id,
        task_id=attempt.task.id,
        sample=attempt.sample,
        round=attempt.round,
        messages=(*messages, answer),
        token_ids=np.concatenate([np.asarray(prompt, dtype=np.int32), generation.token_ids]),
        loss_mask=np.concatenate([np.zeros(before, dtype=bool), np.ones(len(generation.token_ids), dtype=bool)]),
        logprobs=np.concatenate([np.zeros(before, dtype=np.float32), generation.logprobs]),
        prompt_length=before,
        turns=1,
        tool_calls=0,
        tool_errors=0,
        state={},
        stop_reason=generation.stop_reason,
        truncated=generation.stop_reason == "length",
        error=generation.error,
        seconds=seconds,
        policy=policy.identity,
        sampling=sampling.fingerprint,
        environment=environment_fingerprint,
        seed=attempt.seed,
    )
