"""Conversations whose turns a model behind an address gives. Its tokens are not known, so the rollouts have none."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from rlft.chat import AssistantTurn
from rlft.chat.served import as_sent, read_served
from rlft.config import HarnessConfig
from rlft.contract.base import BaseEnv
from rlft.contract.faults import failure_of
from rlft.engines.base import Generation, Sampling
from rlft.engines.chat_endpoint import AskedModel, ChatAnswer, ChatEndpoint
from rlft.engines.server_requests import ServerGoneError, ServerRefusedError
from rlft.errors import EngineError
from rlft.harness.dialogue import Attempt
from rlft.harness.examples import Examples
from rlft.harness.live import Live
from rlft.harness.opening import Ground
from rlft.harness.playground import Playground
from rlft.outcome import Failure
from rlft.progress import Meter, Progress, silent
from rlft.types import Rollout
from rlft.workers.threads import in_thread

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
            where=f"controls: {endpoint.model.identity}",
            fix="`rlft resume` asks it again, and keeps everything before; without it in `controls`, `rlft run` takes "
            "what was trained from the cache",
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
            return row.record(model.identity, asking.sampling, fingerprint)

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
