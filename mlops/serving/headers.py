"""What a running server says of the version that it serves: in headers of every answer, and at `/rlft/version`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from mlops.serving.backend import Backend

# Of a message between two programs alone (RFC 9110, 7.6.1), or set anew by who sends it.
_OF_THE_CONNECTION = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding",
     "upgrade", "content-length", "date", "server"}
)  # fmt: skip


@dataclass
class Serving:
    """What is served now: `current`, and `newer`, the version that the alias names meanwhile, if it is another one.

    `asked` is when the registry has answered last, `problem` why it does not. `follows` says whether the server goes on
    to the version that the alias names.
    """

    current: Backend
    engine: str
    follows: bool
    newer: str | None = None
    asked: datetime | None = None
    problem: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the answer of `/rlft/version`."""
        version = self.current.version
        return {
            "name": version.name,
            "version": version.number,
            "alias": version.alias,
            "weights_sha256": version.weights_hash,
            "environments": list(version.context.get("members") or {}),
            "engine": self.engine,
            "since": self.current.since.isoformat(timespec="seconds"),
            "is_old": self.newer is not None,
            "newer": self.newer,
            "follows": self.follows,
            "registry_answered": self.asked.isoformat(timespec="seconds") if self.asked else None,
            "registry_problem": self.problem,
        }


def version_headers(served: Backend, newer: str | None) -> dict[str, str]:
    """Return the headers of an answer; other signs than those of ASCII are percent-encoded."""
    version = served.version
    headers = {"rlft-model": quote(version.name), "rlft-version": version.number}
    if version.alias:
        headers["rlft-alias"] = quote(version.alias)
    if newer is not None:
        headers["rlft-newer-version"] = newer
    return headers


def passed_on(headers: Any) -> dict[str, str]:
    """Return those headers of a message that are meant for its last receiver."""
    return {name: value for name, value in headers.items() if name.lower() not in _OF_THE_CONNECTION}
