"""Conversations whose turns a model behind an address gives. Its tokens are not known, so the rollouts have none.

`get_to_know` takes a first answer before any training: a wrong address, key or name stops the run.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from rlft.config import HarnessConfig, ModelControl
from rlft.engines.base import Generation, Sampling
from rlft.engines.chat_endpoint import AskedModel, ChatAnswer, ChatEndpoint
from rlft.engines.server_requests import ServerGoneError, ServerRefusedError
from rlft.environments.contract.base import BaseEnv, prompt_messages
from rlft.environments.contract.faults import failure_of
from rlft.environments.workers.threads import in_thread
from rlft.errors import EngineError
from rlft.harness.attempt import Attempt, Examples, Live
from rlft.harness.chat.formats import AssistantTurn
from rlft.harness.dialogue import Playground
from rlft.harness.opening import Ground, open_playground
from rlft.harness.rollout import Played
from rlft.messages import MAX_CALLS, MAX_CHARACTERS, CallError, as_call, as_openai, printable, read_json, written
from rlft.outcome import Failure
from rlft.progress import Meter, Progress, silent
from rlft.types import InvalidToolCall, Message, Rollout, Task, ToolCall

PROMPT_TOKENS, COMPLETION_TOKENS = "endpoint/prompt_tokens", "endpoint/completion_tokens"
_UNKNOWN = Generation.unknown()


@dataclass
class _Asking:
    """What all conversations with one endpoint share, and the tokens that it says to have read and written.

    `unanswered` are the conversations that ended since it did not answer, or was busy, after all attempts; `last` says
    how the newest of them did.
    """

    endpoint: ChatEndpoint
    playground: Playground
    sampling: Sampling
    examples: Examples | None
    usage: dict[str, float] = field(default_factory=dict)
    unanswered: int = 0
    last: str = ""

    async def turn(self, row: Live) -> tuple[AssistantTurn, bool]:
        """Return the next turn of a conversation, and whether it was cut off.

        Raises as `ChatEndpoint.ask` does, and ValueError for examples that cannot be shown.
        """
        said = row.dialogue.messages
        messages = as_sent(self.examples.before(said) if self.examples else said)
        tools = [spec.to_json() for spec in self.playground.tools.values()]
        answer = await in_thread(partial(self.endpoint.ask, messages, tools, self.sampling, row.turn_seed()))
        for name, count in ((PROMPT_TOKENS, answer.prompt_tokens), (COMPLETION_TOKENS, answer.completion_tokens)):
            if count is not None:
                self.usage[name] = self.usage.get(name, 0.0) + count
        return read_answer(answer, self.endpoint), answer.is_cut

    async def converse(self, row: Live) -> None:
        """Attempt a task, turn by turn; whatever fails is the rollout's error."""
        await row.dialogue.open()
        while row.stop_reason is None and row.dialogue.error is None:
            try:
                turn, is_cut = await self.turn(row)
            except (ServerGoneError, ServerRefusedError) as cause:
                if isinstance(cause, ServerGoneError):
                    self.unanswered, self.last = self.unanswered + 1, str(cause)
                row.end("error", Failure("engine", str(cause)))
                break
            except Exception as cause:
                row.end("error", failure_of("prompt", cause))
                break
            row.sampled.append((0, _UNKNOWN))
            if is_cut:  # what is cut off is no call and no answer
                row.dialogue.messages.append({"role": "assistant", "content": turn.content})
                row.end("length")
            elif await row.dialogue.answer(turn.message(), turn.problems) is None:
                row.end("stop")
            elif time.perf_counter() - row.began >= self.playground.harness.timeout_seconds:
                row.end("length")
        await row.dialogue.close()
        if row.dialogue.error is not None and row.error is None:
            row.end("error", row.dialogue.error)


def ask_attempts(
    attempts: Sequence[Attempt],
    environment: BaseEnv,
    endpoint: ChatEndpoint,
    sampling: Sampling,
    *,
    environment_fingerprint: str,
    harness: HarnessConfig | None = None,
    examples: Examples | None = None,
    progress: Progress = silent,
) -> tuple[list[Rollout], dict[str, float]]:
    """Attempt every task, and return the rollouts in the order of `attempts` with the tokens that the endpoint reports.

    As many conversations go on side by side as the endpoint takes requests. Tools, state and limits are those of
    `run_attempts`, but for `harness.max_tokens`, as no tokens are known. What the endpoint does not answer is an error
    of its rollout. Raises EngineError if that happens to more than half of them: such a result would be kept as if it
    were one. Raises EnvironmentSetupError for tools that cannot be described, and RlftError for code that hangs.
    """
    harness = harness or HarnessConfig()
    with Ground(environment, harness) as ground:
        asking = _Asking(endpoint, ground.open(), sampling, examples)
        future = ground.thread.start(_ask_all(asking, attempts, ground, environment_fingerprint, progress))
        longest = _longest(len(attempts), asking.playground, endpoint.model)
        rows = ground.thread.wait(future, harness.tool_timeout_seconds, type(environment).__name__, longest)
    if 2 * asking.unanswered > len(attempts):
        raise EngineError(
            f"it left {asking.unanswered} of {len(attempts)} attempts without an answer; the last time {asking.last}",
            where=endpoint.model.identity,
            fix="`rlft resume`, or the same command again, asks once more and keeps everything before; or leave it out",
        )
    return rows, asking.usage


async def _ask_all(
    asking: _Asking, attempts: Sequence[Attempt], ground: Ground, fingerprint: str, progress: Progress
) -> list[Rollout]:
    model = asking.endpoint.model
    some, meter = asyncio.Semaphore(model.concurrency), Meter(progress, len(attempts), "rollouts")

    async def one(attempt: Attempt) -> Rollout:
        async with some:
            row = Live(attempt, ground.dialogue(asking.playground, attempt.rollout_id, attempt.task))
            await asking.converse(row)
            ground.check()
            meter.add()
            return row.record(model.identity, asking.sampling.fingerprint, fingerprint)

    return list(await asyncio.gather(*map(one, attempts)))


def _longest(attempts: int, playground: Playground, model: AskedModel) -> float:
    """Return after how many seconds it is certain that something hangs which has a limit of its own."""
    harness = playground.harness
    turn = model.attempts * (2 * model.timeout_seconds + 60)  # with the waits in between
    one = harness.timeout_seconds + turn + 3 * harness.tool_timeout_seconds
    return one * (1 + attempts // model.concurrency)


def read_answer(answer: ChatAnswer, endpoint: ChatEndpoint) -> AssistantTurn:
    """Return an answer as a turn. Raises ServerRefusedError for a message that is none."""
    try:
        return read_served(answer.message)
    except (ValueError, RecursionError) as cause:
        raise ServerRefusedError(f"{endpoint.model.endpoint} answers as no chat endpoint does: {cause}") from cause


@dataclass(frozen=True, slots=True)
class AskedPlayer:
    """Attempts tasks with a model behind an address, whose FLOPs nobody knows."""

    model: AskedModel

    def play(self, attempts: Sequence[Attempt], environment: BaseEnv, sampling: Sampling, **settings: Any) -> Played:
        """Attempt every task by `ask_attempts`, and count the tokens that the endpoint reports."""
        with closing(ChatEndpoint(self.model)) as endpoint:
            return ask_attempts(attempts, environment, endpoint, sampling, **settings)


def asked_model(control: ModelControl) -> AskedModel:
    """Return the model behind an address that a config names."""
    limits = {name: getattr(control, name) for name in ("api_key", "timeout_seconds", "attempts", "concurrency")}
    return AskedModel(endpoint=str(control.endpoint), model=control.model, **limits)


_ENOUGH = 16  # tokens of the answer that shows that the endpoint works


def get_to_know(
    control: ModelControl, task: Task, environment: BaseEnv, harness: HarnessConfig, sampling: Sampling
) -> AskedModel:
    """Ask a model behind an address for the beginning of an answer to one task, and return what is known of it then.

    Raises EngineError if it does not answer: a wrong address, key or name, tools or settings of sampling that it does
    not take. Raises ConfigError for a key that is not set.
    """
    model = asked_model(control)
    tools = [spec.to_json() for spec in open_playground(environment, harness).tools.values()]
    short = replace(sampling, max_completion_length=min(sampling.max_completion_length, _ENOUGH))
    with closing(ChatEndpoint(model)) as endpoint:
        try:
            answer = endpoint.ask(as_sent(prompt_messages(task, environment)), tools, short, 0)
            read_answer(answer, endpoint)
        except (ServerGoneError, ServerRefusedError) as cause:
            raise EngineError(
                f"{model.model} cannot be asked: {cause}",
                where="endpoint",
                fix=f"see that it runs at this address (often with /v1 at its end), that it knows the name `model`, "
                f"that {model.api_key or 'api_key names a variable that'} holds a key, and that it takes the settings "
                "of evaluation and tools; or leave the model out",
            ) from cause
    return replace(model, calls_itself=answer.calls_itself)


_SENT = ("role", "content", "tool_calls", "tool_call_id")


def as_sent(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages as an endpoint takes them.

    A call that could not be read stands in the content of its message, as it was written. The sentence about it answers
    no call that the endpoint would know, so it is said by the user.
    """
    return [_sent(message) for message in messages]


def _sent(message: Message) -> dict[str, Any]:
    if message["role"] == "tool" and not message.get("tool_call_id"):
        return {"role": "user", "content": message["content"]}
    whole = as_openai(message) | {"content": written(message)}
    return {key: whole[key] for key in _SENT if key in whole}


def read_served(message: Mapping[str, Any]) -> AssistantTurn:
    """Read the message of an answer. Calls that cannot be read become invalid calls, with a sentence for the model.

    A refusal counts as what the model says. Raises ValueError for what is no message: content that is no text, calls
    that are no list, or more characters than a turn may have.
    """
    content = _text(message.get("content")) or _text(message.get("refusal"))
    given = message.get("tool_calls") or []
    if not isinstance(given, list):
        raise ValueError("its tool_calls are no list")
    calls, invalid = list[ToolCall](), list[InvalidToolCall]()
    for place, value in enumerate(given[:MAX_CALLS], start=1):
        text = json.dumps(value, ensure_ascii=False)
        try:
            calls.append(_named(as_call(read_json(text, 0)[0]), place, {call["id"] for call in calls}))
        except CallError as error:
            invalid.append({"text": printable(text), "error": f"tool call {place} {error}", "position": None})
    if len(given) > MAX_CALLS:
        why = f"only the first {MAX_CALLS} tool calls of a turn are read"
        invalid.append({"text": "", "error": why, "position": None})
    return AssistantTurn(content, tuple(calls), tuple(invalid))


def _text(content: Any) -> str:
    """Return text, or the text parts of a list; empty for `None`. Raises ValueError for anything else."""
    parts = content if isinstance(content, list) else [] if content is None else [{"type": "text", "text": content}]
    texts = list[str]()
    for part in parts:
        if isinstance(part, dict) and part.get("type") in ("thinking", "reasoning"):  # which some put beside the text
            continue
        text = part.get("text") if isinstance(part, dict) else part
        if not isinstance(text, str):
            raise ValueError("its content is no text")
        texts.append(text)
    if sum(map(len, texts)) > MAX_CHARACTERS:
        raise ValueError(f"its content is longer than {MAX_CHARACTERS} characters")
    return printable("".join(texts))


def _named(call: ToolCall, place: int, taken: set[str]) -> ToolCall:
    """Return the call with an id that no call of the turn before it has: nine characters, as Mistral wants them."""
    return call if call["id"] and call["id"] not in taken else {**call, "id": f"call{place:05d}"}
