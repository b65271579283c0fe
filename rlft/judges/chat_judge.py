"""A judge behind an OpenAI-compatible address. What fails, refuses or cannot be read is an error, and never a 0."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

from rlft.config.addresses import check_address
from rlft.engines.base import Sampling
from rlft.engines.chat_endpoint import AskedModel, ChatEndpoint
from rlft.engines.server_requests import ServerGoneError, ServerRefusedError
from rlft.errors import ConfigError, RewardError
from rlft.judges.asking import mark_of, messages_for
from rlft.judges.reading import agreed, read_answer
from rlft.secrets import resolve
from rlft.specification.judge import Answer, JudgeSettings, Question
from rlft.workers.threads import in_thread

_WHERE = "reward.spec: judge"


class ChatJudge:
    """Asks one model, with as many requests side by side as its settings say.

    A question that has been answered is not asked again: equal attempts at a task get equal scores.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        """Raises ConfigError for an address that is none, and if the variable of the key is not set."""
        try:
            address = check_address(settings.endpoint, path="/v1")
        except ValueError as wrong:
            raise ConfigError(str(wrong), where=f"{_WHERE}.endpoint", fix="write where /chat/completions is") from None
        resolve(settings.api_key, f"{_WHERE}.api_key")  # so that a variable that is not set is told before any work
        self.settings = settings
        self._model = AskedModel(
            address,
            settings.model,
            api_key=settings.api_key,
            timeout_seconds=settings.timeout_seconds,
            attempts=settings.attempts,
            concurrency=settings.concurrency,
        )
        self._endpoint: ChatEndpoint | None = None
        self._lock, self._some = threading.Lock(), threading.Semaphore(settings.concurrency)
        self._answers: dict[str, Answer] = {}

    async def ask(self, question: Question) -> Answer:
        """Return what the votes agree on. Raises RewardError if one of them is missing, or labels are split."""
        key = f"{mark_of(question)} {question.least} {question.most} {question.labels}"
        if (known := self._answers.get(key)) is not None:
            return known
        votes = range(self.settings.votes)
        answers = await asyncio.gather(*(in_thread(partial(self._vote, question, vote)) for vote in votes))
        return self._answers.setdefault(key, agreed(answers))

    def _vote(self, question: Question, vote: int) -> Answer:
        """Return one vote. A single one takes the likeliest answer; several are sampled, each with its own seed."""
        settings = self.settings
        sampling = Sampling(0.0 if settings.votes == 1 else 1.0, settings.max_tokens)
        try:
            with self._some:
                said = self._connected().ask(messages_for(question), (), sampling, vote)
        except ServerGoneError as cause:
            raise RewardError(f"the judge did not answer: {cause}") from cause
        except ServerRefusedError as cause:
            raise RewardError(f"the judge refused the request: {cause}") from cause
        if said.is_cut:
            raise RewardError(f"the judge's answer was cut off after judge.max_tokens={settings.max_tokens}")
        return read_answer(said.message, question)

    def _connected(self) -> ChatEndpoint:
        """Return the endpoint, which is opened for the first question: environments are made for much else."""
        with self._lock:
            if self._endpoint is None:
                self._endpoint = ChatEndpoint(self._model, where=f"{_WHERE}.api_key")
            return self._endpoint
