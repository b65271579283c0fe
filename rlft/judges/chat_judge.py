"""A judge behind an OpenAI-compatible address, or in a vLLM that rlft has started.

What fails, refuses or cannot be read is an error, and never a 0.
"""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from rlft.config.addresses import check_address
from rlft.engines.base import Sampling
from rlft.engines.chat_endpoint import AskedModel, ChatAnswer, ChatEndpoint
from rlft.engines.server_requests import ServerGoneError, ServerRefusedError
from rlft.errors import ConfigError, JudgeGoneError, RewardError
from rlft.judges.answers import Answers, key_of
from rlft.judges.asking import messages_for, schema_of
from rlft.judges.reading import agreed, read_answer
from rlft.judges.servers import KEY, running, weights_of
from rlft.secrets import resolve
from rlft.specification.billing import charge
from rlft.specification.judge import Answer, JudgeSettings, Question
from rlft.types import Judging
from rlft.workers.threads import in_thread

_WHERE = "reward.spec: judge"


class ChatJudge:
    """Asks one model, with as many requests side by side as its settings say.

    A vote that was given is not asked for again: equal attempts at a task get equal scores. Every vote is put on the
    bill of the score that it is for.
    """

    def __init__(self, settings: JudgeSettings, answers: Answers | None = None) -> None:
        """Keep what it answers in `answers`, by default in memory alone.

        Raises ConfigError for an address that is none, and if the variable of the key is not set.
        """
        if settings.endpoint is not None:
            _address(settings.endpoint)
        resolve(settings.api_key, f"{_WHERE}.api_key")  # so that a variable that is not set is told before any work
        self.settings = settings
        self._endpoint: ChatEndpoint | None = None
        self._lock, self._some = threading.Lock(), threading.Semaphore(settings.concurrency)
        self._answers = Answers(None) if answers is None else answers
        self._failed: dict[str, tuple[RewardError, int]] = {}  # by key: why, and for how many more who ask the same

    async def ask(self, question: Question) -> Answer:
        """Return what the votes agree on. Raises RewardError if one of them is missing, or labels are split."""
        votes = range(self.settings.votes)
        answers = await asyncio.gather(*(in_thread(partial(self._vote, question, vote)) for vote in votes))
        return agreed(answers)

    def ask_anew(self) -> None:
        """Ask everything once more, and keep votes in memory alone from here on; those on disk stay as they are."""
        self._answers = Answers(None)

    def _vote(self, question: Question, vote: int) -> Answer:
        """Return one vote, which is known or asked for. Raises RewardError if there is none."""
        request = _Request(self.settings, question, vote, weights_of(self.settings))
        with self._answers.alone(request.key):
            if (known := self._answers.get(request.key)) is not None:
                charge(Judging(cached=1, money=None if self.settings.prices is None else 0.0))
                return read_answer({"content": known}, question)
            self._raise_again(request.key)
            try:
                said = self._asked(request)
                if said.is_cut:
                    limit = self.settings.max_tokens
                    raise RewardError(f"the judge's answer was cut off after judge.max_tokens={limit}")
                answer = read_answer(said.message, question)
            except RewardError as failed:
                if question.askers > 1:
                    self._failed[request.key] = failed, question.askers - 1
                raise
            self._answers.put(request.key, said.message["content"])
            return answer

    def _raise_again(self, key: str) -> None:
        """Raise what another attempt of the group was told: a question about all of them fails for all of them."""
        failed, left = self._failed.pop(key, (None, 0))
        if failed is not None:
            if left > 1:
                self._failed[key] = failed, left - 1
            raise type(failed)(failed.what, where=failed.where, fix=failed.fix) from failed

    def _asked(self, request: _Request) -> ChatAnswer:
        """Return what the endpoint says, and put it on the bill. Raises RewardError if it says nothing."""
        said, tries = None, list[None]()
        with self._some:
            started = time.perf_counter()
            try:
                said = self._connected().ask(
                    request.messages,
                    (),
                    request.sampling,
                    request.vote,
                    schema=request.schema,
                    tried=partial(tries.append, None),
                )
                return said
            except ServerGoneError as cause:
                kind = JudgeGoneError if self._connected().is_gone else RewardError
                raise kind(f"the judge did not answer: {cause}") from cause
            except ServerRefusedError as cause:
                raise RewardError(f"the judge refused the request: {cause}") from cause
            finally:
                charge(_bill(self.settings, said, max(0, len(tries) - 1), time.perf_counter() - started))

    def _connected(self) -> ChatEndpoint:
        """Return the endpoint, which is opened for the first question: environments are made for much else."""
        with self._lock:
            if self._endpoint is None:
                self._endpoint = ChatEndpoint(_asked_model(self.settings), where=f"{_WHERE}.api_key")
            return self._endpoint


def _address(endpoint: str) -> str:
    try:
        return check_address(endpoint, path="/v1")
    except ValueError as wrong:
        raise ConfigError(str(wrong), where=f"{_WHERE}.endpoint", fix="write where /chat/completions is") from None


def _asked_model(settings: JudgeSettings) -> AskedModel:
    """Return where the judge answers. Raises RewardError if that is a vLLM of rlft's which nobody has started."""
    if settings.endpoint is not None:
        address, key = _address(settings.endpoint), settings.api_key
    elif (server := running(settings)) is not None:
        address, key = server.address, KEY
    else:
        raise RewardError(
            f"no vLLM runs for the judge {settings.model}",
            where=_WHERE,
            fix="`rlft` starts one for its runs and commands; other programs use rlft.judges.servers.JudgeServers",
        )
    return AskedModel(
        address,
        settings.model,
        api_key=key,
        timeout_seconds=settings.timeout_seconds,
        attempts=settings.attempts,
        concurrency=settings.concurrency,
    )


@dataclass(frozen=True, slots=True)
class _Request:
    """A vote as it is asked for. A single one takes the likeliest answer; several are sampled, each with its seed."""

    settings: JudgeSettings
    question: Question
    vote: int
    weights: str | None = None

    @property
    def messages(self) -> list[dict[str, Any]]:
        return messages_for(self.question)

    @property
    def schema(self) -> dict[str, Any]:
        return schema_of(self.question)

    @property
    def sampling(self) -> Sampling:
        return Sampling(0.0 if self.settings.votes == 1 else 1.0, self.settings.max_tokens)

    @property
    def key(self) -> str:
        """The hash of all that the answer depends on; who is asked in how many votes is not among it."""
        settings, sampling = self.settings, self.sampling
        content = {
            **settings.server(),
            **({"weights": self.weights} if self.weights else {}),
            "version": settings.version,
            "messages": self.messages,
            "schema": self.schema,
            "sampling": [sampling.temperature, sampling.max_completion_length],
            "range": [self.question.least, self.question.most],
            "vote": self.vote,
        }
        return key_of(content)


def _bill(settings: JudgeSettings, said: ChatAnswer | None, retries: int, seconds: float) -> Judging:
    """Return what a call took. Of one that nobody answered no tokens are known, and no money is claimed for it."""
    if said is None:
        free = None if settings.prices is None else 0.0
        return Judging(calls=1, retries=retries, failed=1, money=free, seconds=seconds)
    read, written = said.prompt_tokens, said.completion_tokens
    return Judging(
        calls=1,
        retries=retries,
        prompt_tokens=read or 0,
        completion_tokens=written or 0,
        untold=int(read is None or written is None),
        money=None if settings.prices is None else settings.prices.of(read, written),
        seconds=seconds,
    )
