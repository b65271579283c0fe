"""Asks a model behind an address, an OpenAI-compatible endpoint, for answers: messages in, an answer out, no tokens.

This is no engine: nobody knows which tokens the model has read and sampled, so it can be compared with and not trained.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import httpx

from rlft.engines.base import Sampling
from rlft.engines.server_requests import Requests, ServerGoneError, ServerRefusedError, shown
from rlft.errors import ConfigError
from rlft.texts.secrets import hide, resolve
from rlft.types import Report

logger = logging.getLogger(__name__)
MOST_SILENT = 16  # requests in a row that nobody answers, after which the endpoint is not asked any more
_NOT_TAKEN = (400, 422, 501)  # statuses with which servers refuse a field that they do not know
_SEEDS = 2**31  # some servers take no larger seed
_NEW_NAME = (
    "max_completion_tokens"  # of `max_tokens`, which some models refuse with this word, while few servers know it
)


@dataclass(frozen=True, slots=True)
class AskedModel(Report):
    """Names a model behind an address that has answered: `endpoint`, its `model` there, and what it calls itself.

    `api_key` is the name of a variable (`env:NAME`). How it is asked is no part of what was asked, so neither the key
    nor the limits count in the cache.
    """

    passing: ClassVar[frozenset[str]] = Report.passing | {"api_key", "timeout_seconds", "attempts", "concurrency"}

    endpoint: str
    model: str
    calls_itself: str = ""
    api_key: str | None = None
    timeout_seconds: float = 120.0
    attempts: int = 5
    concurrency: int = 8

    @property
    def identity(self) -> str:
        """The model and its address, as every rollout of it names them."""
        return f"{self.model} at {self.endpoint}"


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """Holds an answer as the endpoint gave it: its message, and whether the limit of tokens cut it off.

    `prompt_tokens` and `completion_tokens` are what it says to have read and written; `None` if it does not say.
    """

    message: dict[str, Any]
    is_cut: bool
    calls_itself: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class ChatEndpoint:
    """Asks one model, from any number of threads.

    A request is tried again as `Requests` says. When `MOST_SILENT` in a row got no answer at all, all later ones fail
    at once: thousands of attempts must not wait for an endpoint that is gone.
    """

    def __init__(self, model: AskedModel, *, where: str = "controls.api_key") -> None:
        """Raises ConfigError if the variable of the key is not set, or its value cannot stand in a header.

        `where` is the setting that names the variable.
        """
        self.model = model
        key = _read_key(model.api_key, where)
        self._requests = Requests(model.endpoint, model, {"Authorization": f"Bearer {key}"} if key else {})
        self._limit = "max_tokens"
        self._needs_top_p = True
        self._takes_schema = True
        self._silent, self._why_silent = 0, ""
        self._lock = threading.Lock()

    def ask(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        sampling: Sampling,
        seed: int,
        *,
        schema: Mapping[str, Any] | None = None,
        tried: Callable[[], None] = lambda: None,
    ) -> ChatAnswer:
        """Return the answer to messages in OpenAI's form; `tools` are the functions that it may call.

        `schema` is the JSON schema of the answer (`response_format`). An endpoint that refuses a request with one and
        answers the same without is sent no more of them, and a warning says so. `tried` is called before each request.
        Raises ServerGoneError if the endpoint does not answer after all attempts, and ServerRefusedError for a refusal
        and for what is no answer. Neither shows the key.
        """
        if self.is_gone:
            raise ServerGoneError(
                f"{self.model.endpoint} was not asked, as it did not answer {MOST_SILENT} times in a row, "
                f"at last: {self._why_silent}"
            )
        response = self._sent(self._body(messages, tools, sampling, seed), schema, tried)
        try:
            return _read_answer(response.json())
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as cause:
            said = f"{self.model.endpoint} answers as no chat endpoint does: {shown(response)}"
            raise ServerRefusedError(said) from cause

    @property
    def is_gone(self) -> bool:
        """Whether so many requests in a row got no answer that the endpoint is not asked any more."""
        return self._silent >= MOST_SILENT

    def close(self) -> None:
        """Close the connections."""
        self._requests.close()

    def _sent(
        self, body: dict[str, Any], schema: Mapping[str, Any] | None, tried: Callable[[], None]
    ) -> httpx.Response:
        """Send a request, and again with other fields if the endpoint refuses those that not every server takes."""
        has_schema = schema is not None and self._takes_schema
        try:
            return self._send({**body, "response_format": _format(schema)} if schema and has_schema else body, tried)
        except ServerRefusedError as refused:
            if refused.status == 400 and _NEW_NAME in str(refused) and _NEW_NAME not in body:
                self._limit = _NEW_NAME
                renamed = {_NEW_NAME if name == "max_tokens" else name: value for name, value in body.items()}
                return self._sent(renamed, schema, tried)
            if refused.status == 400 and "top_p" in str(refused) and body.get("top_p") == 1:
                self._needs_top_p = False
                return self._sent({name: value for name, value in body.items() if name != "top_p"}, schema, tried)
            if not has_schema or refused.status not in _NOT_TAKEN:
                raise
            response = self._sent(body, None, tried)  # raises if the schema is not what is refused
            self._do_without_schema(str(refused))
            return response

    def _do_without_schema(self, why: str) -> None:
        """Send no schemas from here on, and say so once."""
        with self._lock:
            is_news, self._takes_schema = self._takes_schema, False
        if is_news:
            logger.warning(
                "%s takes no schema of answers (response_format): it is asked for their form in words alone. %s",
                self.model.identity,
                why,
            )

    def _send(self, body: dict[str, Any], tried: Callable[[], None]) -> httpx.Response:
        """Send a request, and note whether anybody answers."""
        silence = ""
        try:
            return self._requests.send("POST", "/chat/completions", body, tried=tried)
        except ServerGoneError as gone:
            silence = str(gone) if gone.status == 0 else ""
            raise
        finally:
            self._note(silence)

    def _body(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], sampling: Sampling, seed: int
    ) -> dict[str, Any]:
        """Return the request.

        What would change nothing is left out, as some servers refuse what they do not know. `top_p` is in it unless it
        is refused: without it some take the one of the model's `generation_config.json`.
        """
        cut = {"top_p": (sampling.top_p, None if self._needs_top_p else 1), "top_k": (sampling.top_k, 0)}
        cut["min_p"] = (sampling.min_p, 0)
        return {
            "model": self.model.model,
            "messages": list(messages),
            **({"tools": list(tools)} if tools else {}),
            "temperature": sampling.temperature,
            self._limit: sampling.max_completion_length,
            "seed": seed % _SEEDS,
            **{name: value for name, (value, off) in cut.items() if value != off},
        }

    def _note(self, silence: str) -> None:
        """Count what got no answer, for the reason given; an empty one means that there was an answer."""
        with self._lock:
            self._silent = self._silent + 1 if silence else 0
            self._why_silent = silence


def _format(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": dict(schema)}}


def _read_key(api_key: str | None, where: str) -> str:
    """Return the value of the key's variable, or an empty text. Raises ConfigError for one that no header can hold."""
    if api_key is None:
        return ""
    key = str(resolve(api_key, where)).strip()
    if not key.isascii() or not key.isprintable():
        raise ConfigError(
            f"the value of {api_key} has a character that cannot be sent",
            where=where,
            fix="export the key alone, in one line",
        )
    return key


def _read_answer(said: Any) -> ChatAnswer:
    """Raise whatever looking into something else than an answer raises."""
    choice = said["choices"][0]
    if not isinstance(choice["message"], dict):
        raise TypeError("the message is no object")
    usage, named = said.get("usage") or {}, said.get("model")
    return ChatAnswer(
        message=choice["message"],
        is_cut=choice.get("finish_reason") == "length",
        calls_itself=hide(named)[:200] if isinstance(named, str) and named.isprintable() else "",
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
    )


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 2**53 else None
