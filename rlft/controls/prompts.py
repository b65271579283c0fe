"""Measures prompts with examples before a model reads them: whether they fit its context, and what reading costs."""

from __future__ import annotations

from typing import Protocol

from rlft.chat import open_chat
from rlft.contract.base import prompt_messages
from rlft.controls.judging import Judge
from rlft.errors import PolicyError
from rlft.flops import encoded, shape_of
from rlft.harness.examples import Examples
from rlft.harness.opening import open_playground
from rlft.policy import Policy
from rlft.rollout import Player, PolicyPlayer
from rlft.types import Message, Split

_READ: tuple[Split, ...] = ("validation", "gate", "test", "off_distribution")  # splits on which policies are evaluated


class Prompts(Protocol):
    """Measures the prompts of all tasks that a model is evaluated on, with examples and without."""

    def why_not(self, examples: Examples | None) -> str | None:
        """Return why these examples cannot be shown to this model; `None` if they can."""
        ...

    def reading_flops(self, examples: Examples | None) -> float:
        """Return the FLOPs of reading each validation prompt once; 0 where they are not known."""
        ...

    def answering_flops(self, examples: Examples | None) -> float:
        """Return the most FLOPs that a validation takes beside that; 0 where they are not known."""
        ...


def open_prompts(player: Player, judge: Judge) -> Prompts:
    """Return what measures the prompts for whatever attempts the tasks."""
    return PolicyPrompts(player.policy, judge) if isinstance(player, PolicyPlayer) else AskedPrompts(judge)


class AskedPrompts:
    """Knows of a model behind an address what follows from the messages alone: whether examples can be shown as text.

    A prompt that is too long for it is refused by the endpoint, and its attempts count as errors.
    """

    def __init__(self, judge: Judge) -> None:
        self._prompts = _read_prompts(judge)

    def why_not(self, examples: Examples | None) -> str | None:
        """Return why these examples cannot be shown; `None` if they can."""
        if examples is None:
            return None
        try:
            for prompt in self._prompts:
                examples.before(prompt)
        except ValueError as cause:
            return str(cause)
        return None

    def reading_flops(self, examples: Examples | None) -> float:
        """Return 0, as nobody knows."""
        del examples
        return 0.0

    answering_flops = reading_flops


def _read_prompts(judge: Judge) -> list[tuple[Message, ...]]:
    """Return the prompts of all tasks that models are evaluated on, those of `validation` first."""
    tasks = [task for split in _READ for task in judge.tasks.split(split)]
    return [tuple(prompt_messages(task, judge.environment)) for task in tasks]


class PolicyPrompts:
    """Measures the prompts of all tasks that a policy is evaluated on, in tokens, with examples and without."""

    def __init__(self, policy: Policy, judge: Judge) -> None:
        sampling, environment = judge.sampling, judge.environment
        playground = open_playground(environment, sampling.harness)
        self._chat = open_chat(
            policy.tokenizer,
            tuple(playground.tools.values()),
            tool_format=sampling.harness.tool_format,
            multi_turn=playground.max_turns > 1,
        )
        self._shape, self._shares_prompts = shape_of(policy.model), policy.shares_prompts
        self._prompts = _read_prompts(judge)
        self._validated = len(judge.tasks.split("validation"))
        context = sampling.engine.context_length(policy.context_length)
        self._room = (1 << 62 if context is None else context) - sampling.max_completion_length
        self._turns, self._longest = playground.max_turns, sampling.max_completion_length
        self._attempts = judge.num_generations
        self._plain = self._measure(None)
        self._last: tuple[Examples | None, list[list[int]]] = None, self._plain

    def why_not(self, examples: Examples | None) -> str | None:
        """Return why these examples cannot be shown to this model; `None` if they can."""
        if examples is None:
            return None
        try:
            prompts = self._measure(examples)
        except (PolicyError, ValueError) as cause:
            return cause.what if isinstance(cause, PolicyError) else str(cause)
        self._last = examples, prompts
        if lost := sum(len(plain) <= self._room < len(long) for plain, long in zip(self._plain, prompts, strict=True)):
            return f"with it {lost} of {len(prompts)} prompts do not fit the context of the model"
        if not self._shows_calls(examples):
            return "the model has no chat template, which would show the calls of tools"
        return None

    def reading_flops(self, examples: Examples | None) -> float:
        """Return the FLOPs of reading the validation prompts once."""
        prompts = self._of_validation(examples)
        tokens, pairs = encoded(prompts, shares_prompts=self._shares_prompts)
        return self._shape.forward(tokens, len(prompts), pairs)

    def answering_flops(self, examples: Examples | None) -> float:
        """Return the FLOPs of a validation beside that, if every attempt has all its turns, each of the full length.

        Later turns read everything before them anew. What tools say, which they read too, is not known and left out.
        """
        longest, total = self._longest, 0.0
        for length in map(len, self._of_validation(examples)):
            starts = [length + turn * longest for turn in range(self._turns)]
            total += sum(self._shape.forward(start, 1, start**2) for start in starts[1:])
            total += sum(self._shape.forward(longest, longest, longest * (start + longest)) for start in starts)
        return self._attempts * total

    def _of_validation(self, examples: Examples | None) -> list[list[int]]:
        """Return the token ids of the validation prompts."""
        prompts = self._last[1] if self._last[0] is examples else self._measure(examples)
        return prompts[: self._validated]

    def _measure(self, examples: Examples | None) -> list[list[int]]:
        shown = (examples.before(prompt) if examples else prompt for prompt in self._prompts)
        return [self._chat.prompt(messages) for messages in shown]

    def _shows_calls(self, examples: Examples) -> bool:
        calls = [call for one in examples.shown for message in one.turns for call in message.get("tool_calls", [])]
        text = self._chat.decode(self._chat.prompt(examples.before(self._prompts[0]))) if calls else ""
        return all(call["function"]["name"] in text for call in calls)
