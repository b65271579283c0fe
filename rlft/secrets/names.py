"""Decides whether a setting's name says that it holds a secret: `api_key` and `openaiKey` do, `public_key` does not."""

from __future__ import annotations

import math
import re

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_GLUED = re.compile(
    r"(access|api|auth|db|my|pass|pg|private|secret|session)(id|key|pass(?:word|wd)|secret|token)", re.IGNORECASE
)
_PIECE = re.compile(r"[A-Za-z0-9]+")
# A piece that is words in one case, a number, or both: Qwen3, word2vec, 2024.
_PLAIN = re.compile(r"(?:[A-Z]{1,20}|[A-Z]?[a-z]{1,20}(?:[A-Z][a-z]{1,20})*)?[0-9]{0,4}(?:[a-z]{3,20})?")
_PLACEHOLDER = re.compile(
    r"\W*|<[^<>]*>|\[[A-Za-z_]+\]|none|null|true|false|unused|empty|dummy|placeholder|n/?a|x{3,}|\$\w+"
    r"|vllm|ollama|lm-studio|local|test"
    r"|(?:sk-)?not?[-_ ](?:api[-_ ]?)?(?:key|token|auth|needed|required|used|set)(?:[-_ ](?:needed|required))?"
    r"|(?:your|insert|enter|put)[-_ ][a-z_ -]{1,60}|[a-z_-]{1,60}[-_]here|\(.*\)[*+?]?",
    re.IGNORECASE,
)
_FILLING = {  # words at the end of a name that are skipped
    "backup", "ci", "dev", "header", "main", "plain", "prod", "read", "staging", "str", "text", "value", "write",
}  # fmt: skip
_PASSWORDS = {"passcode", "passphrase", "passwd", "password", "pw", "pwd"}
# After a name that ends with a strong word, or with a weak one and one of _OF_SECRETS before it, every text that is no
# placeholder is a secret; where a weak word stands anywhere in it, only a text that looks random.
_STRONG = _PASSWORDS | {"authorization", "cred", "credential"}
_WEAK = {
    "auth", "bearer", "cookie", "hmac", "jwt", "key", "keytab", "oauth", "pass", "pat", "secret", "session", "token",
}  # fmt: skip
_OF_SECRETS = {
    "access", "api", "auth", "basic", "client", "db", "github", "private", "refresh", "secret", "service", "signing",
    "smtp", "webhook",
}  # fmt: skip
_OF_TASKS = {"answer", "cache", "hash", "hidden", "image", "magic", "musical", "public"}  # whose texts may be random


def names_a_secret(name: str, text: str) -> bool:
    """Return whether a setting with this name and this text holds a secret."""
    words = [_singular(word.lower()) for word in _WORD.findall(_GLUED.sub(r"\1_\2", name))]
    while len(words) > 1 and (words[-1].isdigit() or words[-1] in _FILLING):
        words.pop()
    if not words or is_placeholder(text):
        return False
    if words[-1] in _STRONG or (words[-1] in _WEAK and _OF_SECRETS & set(words[:-1])):
        return not {"hidden", "magic"} & set(words) or looks_random(text)  # the password of a task
    if words == ["token"] and re.search("[0-9]", text) and not text.isdigit():  # an access token; "answer" is a column
        return bool(re.fullmatch(r"[\w.~+/=-]+", text))
    return bool(_WEAK & set(words)) and not _OF_TASKS & set(words) and looks_random(text)


def names_a_password(name: str) -> bool:
    """Return whether a setting with this name is a secret even if its value is a number: `password: 12345678`."""
    words = _WORD.findall(name)
    return bool(words) and _singular(words[-1].lower()) in _PASSWORDS


def is_placeholder(text: str) -> bool:
    """Return whether a text fills the place of a secret without being one.

    Such are `EMPTY`, `not-needed`, `YOUR_KEY_HERE` and `<key>`.
    """
    return bool(_PLACEHOLDER.fullmatch(text))


def looks_random(text: str, bits: float = 45) -> bool:
    """Return whether a part of a text without spaces has so many bits that are neither words nor short numbers.

    Each sign of a piece that is none counts as one drawn from 26 small letters, 26 large ones and 10 digits, of those
    that occur; nine letters and digits have 45 bits.
    """
    return any(_bits(part) >= bits for part in text.split())


def _bits(part: str) -> float:
    odd = "".join(piece for piece in _PIECE.findall(part) if not _PLAIN.fullmatch(piece))
    kinds = ((26, str.islower), (26, str.isupper), (10, str.isdigit))
    return len(odd) * math.log2(sum(count for count, has in kinds if any(map(has, odd))) or 1)


def _singular(word: str) -> str:
    return word if word.endswith("ss") else word.removesuffix("s")
