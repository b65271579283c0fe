"""Decides whether a setting's name says that it holds a secret: `api_key` and `openaiKey` do, `sort_key` does not."""

from __future__ import annotations

import re

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PLAIN = re.compile(  # words in one case, as names of columns, modules and models are written, and dates
    r"(?:[a-z]{1,20}(?:[A-Z][a-z]{1,20})*(?:[_./:-]+(?:[a-z]{1,20}|[0-9]{1,4}))*"
    r"|[A-Z]{1,20}(?:[_./:-]+(?:[A-Z]{1,20}|[0-9]{1,4}))*"
    r"|[A-Z][a-z]{1,20}(?:[A-Z][a-z]{1,20}|[_./:-]+(?:[A-Z]?[a-z]{1,20}|[0-9]{1,4}))*"
    r"|[0-9]{1,4}(?:[_./:-]+[0-9]{1,4})*)[0-9]{0,2}"
)
_AROUND = "#<>|*~:!?.,;()[]"  # signs that a piece of a prompt begins and ends with
_PLACEHOLDER = re.compile(
    r"\W*|<[^<>]*>|\[[A-Za-z_]+\]|none|null|true|false|unused|empty|dummy|placeholder|n/?a|x{3,}|\$\w+"
    r"|(?:sk-)?not?[-_ ](?:api[-_ ]?)?(?:key|token|auth|needed|required|used|set)(?:[-_ ](?:needed|required))?"
    r"|(?:your|insert|enter|put)[-_ ][a-z_ -]{1,60}|[a-z_-]{1,60}[-_]here|\(.*\)[*+?]?",
    re.IGNORECASE,
)
_NO_CREDENTIALS = re.compile(r"[a-z][a-z0-9+.-]*:[^@?;\s]*", re.IGNORECASE)
_FILLING = {"value", "header", "text", "str", "plain"}  # words at the end of a name that are skipped

# The last word of a name decides. After a strong word every text that is no placeholder is a secret, after a weak one
# only a text that looks random.
_STRONG = {
    "apikey", "authorization", "cred", "credential", "passcode", "passphrase", "passwd", "password", "pw", "pwd",
}  # fmt: skip
_WEAK = {"auth", "bearer", "cookie", "hmac", "jwt", "key", "oauth", "pass", "pat", "secret", "session", "token"}
_PASSWORDS = {"passcode", "passphrase", "passwd", "password", "pw", "pwd"}
_OF_GAMES = {"hidden", "magic"}  # words before `password` where it is part of a task; it counts as weak then
_CONNECTION = {"connection", "conn"}
# Words before a weak word: these make it strong; those of _OF_TASKS, before `key` and `token`, make it no secret.
_OF_SECRETS = {
    "access", "account", "admin", "api", "anthropic", "auth", "aws", "azure", "basic", "bearer", "bot", "client",
    "cohere", "gcp", "github", "gitlab", "google", "groq", "hf", "huggingface", "jwt", "master", "mistral", "oauth",
    "openai", "personal", "private", "rapidapi", "refresh", "sas", "secret", "security", "serper", "service", "session",
    "shared", "signing", "slack", "ssh", "subscription", "tavily", "wandb",
}  # fmt: skip
_OF_TASKS = {
    "added", "answer", "bos", "cache", "class", "cls", "column", "completion", "composite", "config", "context", "data",
    "dataset", "dict", "document", "end", "eos", "extra", "feature", "field", "first", "foreign", "gold", "group",
    "hash", "id", "image", "index", "input", "join", "json", "kv", "label", "last", "list", "lookup", "map", "mask",
    "max", "message", "meta", "metadata", "metric", "min", "musical", "new", "next", "num", "order", "output", "pad",
    "partition", "passage", "primary", "prompt", "public", "query", "question", "response", "reward", "row", "score",
    "sep", "separator", "sort", "source", "special", "start", "state", "stop", "target", "task", "text", "think",
    "thinking", "thought", "tool", "total", "trigger", "unique", "unk",
}  # fmt: skip


def names_a_secret(name: str, text: str) -> bool:
    """Return whether a setting with this name and this text holds a secret.

    The last word of the name decides (`token_budget` holds none), and for weak words such as `key` those before it.
    """
    words = [word.lower() for word in _WORD.findall(name)]
    while len(words) > 1 and (words[-1].isdigit() or words[-1] in _FILLING or words[-2:] == ["session", "id"]):
        words.pop()
    if not words or is_placeholder(text):
        return False
    last, before = _singular(words[-1]), words[:-1]
    if last in _STRONG:
        return not _OF_GAMES & set(before) or looks_random(text)
    if last == "dsn" or (last == "string" and before and before[-1] in _CONNECTION):
        return not _NO_CREDENTIALS.fullmatch(text)
    if last == "cookie" and "=" in text:  # as a header has it: name=value; path=/
        return True
    if last not in _WEAK or (text.isdigit() and len(text) < 8):
        return False
    if not before and last == "token":
        return text == text.strip(_AROUND)  # the name that libraries give an access token, and short words too
    if last in ("key", "token") and before and before[-1] in _OF_TASKS:
        return False
    return bool(_OF_SECRETS & set(before)) or looks_random(text, 16 if name.lower() in ("key", "keys") else 8)


def names_a_password(name: str) -> bool:
    """Return whether a setting with this name is a secret even if its value is a number: `password: 12345678`."""
    words = _WORD.findall(name)
    return bool(words) and _singular(words[-1].lower()) in _PASSWORDS


def is_placeholder(text: str) -> bool:
    """Return whether a text fills the place of a secret without being one.

    Such are `EMPTY`, `not-needed`, `YOUR_KEY_HERE` and `<key>`.
    """
    return bool(_PLACEHOLDER.fullmatch(text))


def looks_random(text: str, at_least: int = 8) -> bool:
    """Return whether a text looks random.

    Such a text is long enough, has no spaces and braces, and is not made of words or short numbers.
    """
    return len(text) >= at_least and not re.search(r"\s|[{}]", text) and not _PLAIN.fullmatch(text.strip(_AROUND))


def _singular(word: str) -> str:
    return word if word == "pass" else word.removesuffix("s")
