"""Whether a name says that its text is a secret: `api_key`, `X-API-Key` and `openaiKey` do, `sort_key` does not."""

from __future__ import annotations

import re

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PLAIN = re.compile(  # words in one case, as names of columns, modules and models are written
    r"(?:[a-z]+(?:[A-Z][a-z]+)*(?:[_./:-]+(?:[a-z]+|[0-9]{1,2}))*"
    r"|[A-Z]+(?:[_./:-]+(?:[A-Z]+|[0-9]{1,2}))*"
    r"|[A-Z][a-z]+(?:[A-Z][a-z]+|[_./:-]+(?:[A-Z]?[a-z]+|[0-9]{1,2}))*)[0-9]{0,2}"
)
_NO_CREDENTIALS = re.compile(r"[a-z][a-z0-9+.-]*:[^@?;\s]*", re.IGNORECASE)
_FILLING = {"value", "header", "text", "str", "plain"}

_SECRET = {
    "apikey", "authorization", "bearer", "cookie", "cred", "credential", "passcode", "passphrase", "passwd", "password",
    "pwd", "secret",
}  # fmt: skip
_CONNECTION = {"connection", "conn"}
# What stands before `key` or `token` and makes it a secret, or something of the task.
_OF_SECRETS = {
    "access", "account", "admin", "api", "anthropic", "auth", "aws", "azure", "bearer", "bot", "client", "cohere",
    "encryption", "gcp", "github", "gitlab", "google", "groq", "hf", "huggingface", "jwt", "master", "mistral", "oauth",
    "openai", "personal", "private", "rapidapi", "refresh", "sas", "secret", "security", "serper", "service", "session",
    "shared", "signing", "slack", "ssh", "subscription", "tavily", "wandb",
}  # fmt: skip
_OF_TASKS = {
    "added", "answer", "bos", "cache", "class", "cls", "column", "completion", "composite", "config", "context", "data",
    "dataset", "dict", "document", "end", "eos", "extra", "feature", "field", "first", "foreign", "gold", "group",
    "hash", "id", "image", "index", "input", "join", "json", "kv", "label", "last", "list", "lookup", "map", "mask",
    "max", "message", "meta", "metadata", "metric", "min", "new", "next", "num", "order", "output", "pad", "partition",
    "primary", "prompt", "public", "query", "question", "response", "reward", "row", "score", "sep", "sort", "source",
    "special", "start", "state", "stop", "target", "task", "text", "think", "thinking", "tool", "total", "unique",
    "unk",
}  # fmt: skip


def names_a_secret(name: str, text: str) -> bool:
    """Whether a setting of this name with this text holds a secret.

    The last word of the name decides (`token_budget` is none), and for `..._key` and `..._token` the one before it.
    Where that is not known, a text that is no plain words is taken for a secret.
    """
    words = [word.lower() for word in _WORD.findall(name)]
    while len(words) > 1 and (words[-1].isdigit() or words[-1] in _FILLING):
        words.pop()
    if not words:
        return False
    last = words[-1].removesuffix("s") if words[-1] != "pass" else "pass"
    before = words[:-1]
    if last in _SECRET:
        return True
    if last == "dsn" or (last == "string" and before and before[-1] in _CONNECTION):
        return not _NO_CREDENTIALS.fullmatch(text)
    if last not in ("key", "token", "pass") or (text.isdigit() and len(text) < 8):
        return False
    if not before:
        return last == "token" or looks_random(text, 16)
    if before[-1] in _OF_TASKS:
        return False
    return bool(_OF_SECRETS & set(before)) or looks_random(text)


def looks_random(text: str, at_least: int = 8) -> bool:
    """Whether a text is long enough for a secret and neither words nor a name of words."""
    return len(text) >= at_least and not re.search(r"\s|[{}]", text) and not _PLAIN.fullmatch(text)
