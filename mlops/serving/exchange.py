"""A request and its answer as they are logged: the conversations that they hold, whichever route they came by."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlops.registry.served_input import conversations
from mlops.serving.answered import answered_messages
from mlops.serving.version import ServedVersion

INVOCATIONS = "/invocations"
LONGEST_REQUEST, LONGEST_ANSWER = 1 << 18, 1 << 20  # bytes: a longer request is not logged, an answer is cut
TAG_HEADER, TRACE_HEADER = "rlft-tag", "rlft-trace"
_MOST_TAGS = 10
_TAG = re.compile(r"([A-Za-z][\w.-]{0,49})=([^,\x00-\x1f]{1,250})", re.ASCII)
_RESERVED = ("rlft.", "mlflow.")
Messages = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer.

    `asked` is the body that the engine got, and `answer` what it sent, up to `LONGEST_ANSWER`: as bytes, so that their
    size is known while they wait. Times are nanoseconds since the epoch. `key` is the 16 bytes of the trace's id,
    `tags` are those that the client gave.
    """

    version: ServedVersion
    path: str
    asked: bytes
    status: int
    content_type: str
    answer: bytes
    start: int
    end: int
    key: bytes
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether the answer is an error."""
        return self.status >= 400

    @property
    def size(self) -> int:
        """How many bytes it holds."""
        return len(self.asked) + len(self.answer)


def read_tags(headers: Iterable[str]) -> dict[str, str]:
    """Return the tags of a request by its headers `rlft-tag: NAME=VALUE`, which may hold several with commas between.

    Raises ValueError, a sentence, for one that is no tag, or that rlft or MLflow sets itself.
    """
    tags = dict[str, str]()
    for each in (part.strip() for header in headers for part in header.split(",")):
        found = _TAG.fullmatch(each)
        if found is None or each.lower().startswith(_RESERVED):
            raise ValueError(
                f"the header {TAG_HEADER} holds {each!r:.80}, which is no tag; write NAME=VALUE, with a name of "
                f"letters, digits, _, . and - that does not begin with {' or '.join(_RESERVED)}"
            )
        tags[found[1]] = found[2].strip()
    if len(tags) > _MOST_TAGS:
        raise ValueError(f"the header {TAG_HEADER} holds {len(tags)} tags; at most {_MOST_TAGS} are taken")
    return tags


def conversations_of(exchange: Exchange) -> list[tuple[bytes, Messages, Messages]]:
    """Return (key of the trace, what was asked, what was answered) of each conversation.

    A chat, or a prompt of the completions route, is one. A request to `/invocations` may hold several, each with one
    answer: the first has the exchange's own key. One that cannot be taken apart is one conversation, as it was sent.
    """
    body = _read(exchange.asked)
    if exchange.path == INVOCATIONS and not exchange.failed:
        asked, answered = _invoked(body), _predicted(exchange.answer)
        if asked and len(asked) == len(answered):
            pairs = zip(asked, answered, strict=True)
            return [(_key(exchange.key, n), each, [_assistant(text)]) for n, (each, text) in enumerate(pairs)]
    return [(exchange.key, _asked(body), answered_messages(exchange.content_type, exchange.answer))]


def _read(body: bytes) -> Any:
    """Return a body of JSON; as text if it is none."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body.decode("utf-8", errors="replace")


def _asked(body: Any) -> Messages:
    """Return the messages of a request, or its prompt as one; what has neither is one message, as it was sent."""
    given = body if isinstance(body, dict) else {}
    messages, prompt = given.get("messages"), given.get("prompt")
    if isinstance(messages, list) and all(isinstance(message, dict) for message in messages):
        return messages
    text = next((each for each in (prompt, body) if isinstance(each, str)), None)
    return [{"role": "user", "content": json.dumps(body, ensure_ascii=False) if text is None else text}]


def _invoked(asked: Any) -> list[Messages]:
    """Return the conversations of a request in one of the forms of MLflow's server; none if it has another form."""
    if not isinstance(asked, dict):
        return []
    given = next((asked[name] for name in ("inputs", "instances", "dataframe_records") if name in asked), None)
    try:
        return conversations(given)
    except (ValueError, TypeError, KeyError):
        return []


def _predicted(answer: bytes) -> Sequence[str]:
    try:
        predictions = json.loads(answer)["predictions"]
    except (ValueError, TypeError, KeyError):
        return []
    return predictions if isinstance(predictions, list) and all(isinstance(p, str) for p in predictions) else []


def _assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def _key(key: bytes, number: int) -> bytes:
    return hashlib.sha256(key + number.to_bytes(4, "big")).digest()[:16] if number else key
