"""Secrets: which settings look like one, how a setting names an environment variable instead, and how texts hide them.

A setting names a variable as `env:NAME`, or as `{env:NAME}` within a text such as `Bearer {env:NAME}`. It is read where
the setting is used; what is stored (the config, parameters, fingerprints, cache keys) holds the name and never the
value. A value may come back in any text that an environment's code makes, such as the message of an error or a line of
the log, so this module remembers the values that were read. Beside the warm tables of `materializers.tables` this is
the only global state of a process (docs/decisions/0009-secrets.md).

A secret shows by its own form (keys of known providers, passwords in addresses) or by the name of its setting. The same
definition serves the check of a config and what is written to MLflow, logs and files.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import sys
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr
from typing import Any, TextIO
from urllib.parse import quote, quote_plus

from rlft.errors import ConfigError

MASK = "***"
_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
# Under a name that ends so every text that is no placeholder is a secret, ...
_STRONG = re.compile(
    r"(?:^|_|db|pg)(?:pass(?:code|phrase|wd|word)|pwd?|authorization|credentials?"
    r"|(?:access|api|auth|client|private|refresh|secret|service|signing|smtp|webhook)_?(?:key|pass|secret|token))s?$"
)
# ... and where such a word stands anywhere in it, a text that looks random.
_WEAK = re.compile(r"(?:^|_)(?:auth|bearer|cookie|hmac|jwt|key|oauth|pass|pat|secret|session|token)s?(?:_|$)")
_OF_TASKS = re.compile(r"(?:^|_)(?:answer|cache|hash|hidden|image|magic|musical|public)_")  # whose texts may be random
_PASSWORD = re.compile(r"(?:^|_)(?:pass(?:code|phrase|wd|word)|pwd?)$")
_SHORTEST_NUMBER = 4  # characters of a number that can be a password
_PLACEHOLDER = re.compile(
    r"\W*|<[^<>]*>|none|null|true|false|unused|empty|dummy|placeholder|vllm|ollama|lm-studio|local|test|string|required"
    r"|(?:sk-)?not?[-_ ][a-z_ -]{1,60}|(?:your|insert|enter|put)[-_ ][a-z_ -]{1,60}|[a-z_-]{1,60}[-_]here|\(.*\)[*+?]?",
    re.IGNORECASE,
)
_PIECE = re.compile(r"[A-Za-z0-9]+")
# A piece that is words in one case, a number, or both: Qwen3, word2vec, 2024.
_PLAIN = re.compile(r"(?:[A-Z]{1,20}|[A-Z]?[a-z]{1,20}(?:[A-Z][a-z]{1,20})*)?[0-9]{0,4}(?:[a-z]{3,20})?")
# What tokens of common services begin with: OpenAI and many others, Hugging Face, GitHub, GitLab, Slack, Google, ...
_PREFIXES = """
sk- sk_ rk_live_ whsec_ gsk_ xai- pplx- tvly- nvapi- r8_ hf_ lsv2_ wandb_v1_ pcsk_ fw_ ghp_ gho_ ghu_ ghs_ ghr_
github_pat_ glpat- xoxa- xoxb- xoxe- xoxp- xoxr- xoxs- xapp- AIza ya29. GOCSPX- SG. dop_v1_ pypi- npm_ dckr_pat_ dapi
hvs. sntrys_ glsa_
"""
_TOKEN = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, _PREFIXES.split()))})([\w.-]{{12,}})")
_BITS_OF_TOKEN, _BITS_OF_TEXT = 30, 45
_FORMS = re.compile(
    r"""(?x)
    (?<![A-Za-z0-9])(?:
        https://(?:hooks\.slack\.com/services|discord(?:app)?\.com/api/webhooks|[\w-]+\.webhook\.office\.com)/\S+
      | (?:AKIA|ASIA)[A-Z0-9]{16}                                             # AWS
      | eyJ[\w-]{5,}\.eyJ[\w-]{5,}(?:\.[\w-]*)?                               # a JSON web token (RFC 7519)
    )
    | -----BEGIN\ [A-Z0-9 ]*PRIVATE\ KEY[A-Z ]*-----(?s:.*?)(?:-----END\ [A-Z0-9 ]*-----|\Z)
    """
)
_SCHEME = re.compile(r"\b(?:Bearer|Basic)\s+([\w.~+/-]{7,}\w=*)", re.IGNORECASE)
# Up to the last @: a password may hold a slash, a colon or another @.
_USER = re.compile(r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,30}://([^\s\"<>]{1,1000})@", re.IGNORECASE)
_PORT_AND_PATH = re.compile(r"[0-9]{1,5}[/?#]")
_PAIR = re.compile(r"(?:^|(?<=[?&;\s]))-{0,2}([A-Za-z][\w.-]*)=([^&;\s#\"'<>{}]+)")
# `--password x`, `password: x` and `"password": "x"`, which prose has, too: what stands there must look random.
_LOOSE_PAIR = re.compile(
    r"""(?<![\w.-])(?:--)?([A-Za-z][\w.-]{0,60})(?:(?<=\w)[ ]|\\?["']?:\s?)\\?["']?([^\s"'<>{}\\]+)"""
)


def names_a_secret(name: str, text: str) -> bool:
    """Return whether a setting with this name and this text holds a secret."""
    words = _WORD_ENDS.sub("_", name).lower()
    if _PLACEHOLDER.fullmatch(text):
        return False
    if _OF_TASKS.search(words):  # the password of a task
        return bool(_STRONG.search(words)) and looks_random(text)
    return bool(_STRONG.search(words)) or (bool(_WEAK.search(words)) and looks_random(text))


def looks_random(text: str, bits: float = _BITS_OF_TEXT) -> bool:
    """Return whether a part of a text without spaces has so many bits that are neither words nor short numbers.

    Each sign of a piece that is none counts as one drawn from 26 small letters, 26 large ones and 10 digits, of those
    that occur; nine letters and digits have 45 bits.
    """
    return any(_bits(part) >= bits for part in text.split())


def _bits(part: str) -> float:
    odd = "".join(piece for piece in _PIECE.findall(part) if not _PLAIN.fullmatch(piece))
    kinds = ((26, str.islower), (26, str.isupper), (10, str.isdigit))
    return len(odd) * math.log2(sum(count for count, has in kinds if any(map(has, odd))) or 1)


def secret_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of every secret in a text, in any order; the spans may overlap."""
    for found in _FORMS.finditer(text):
        yield found.span()
    for found in _TOKEN.finditer(text):
        if looks_random(found[1], _BITS_OF_TOKEN):
            yield found.span()
    for found in _SCHEME.finditer(text):
        if looks_random(found[1]):
            yield found.span(1)
    for found in _USER.finditer(text):
        if _has_credentials(found[1]):
            yield found.span(1)
    for found in _PAIR.finditer(text):
        if found[1].lower().endswith(("sig", "signature")) or names_a_secret(found[1], found[2]):
            yield found.span(2)
    for found in _LOOSE_PAIR.finditer(text):
        if looks_random(found[2]) and names_a_secret(found[1], found[2]):
            yield found.span(2)


def _has_credentials(before_at: str) -> bool:
    """Return whether `user:password`, or a token alone, stands before the @ of an address.

    `host:80/page` does not count.
    """
    user, colon, password = before_at.partition(":")
    if set(user) & set("/?#"):
        return False
    return bool(password) and not _PORT_AND_PATH.match(password) if colon else looks_random(user)


def redact(text: str) -> str:
    """Return the text with `***` for every secret that shows by its form, and for the users in web addresses."""
    end, kept = 0, list[str]()
    for start, stop in sorted({*secret_spans(text), *_users(text)}):
        if stop > end:
            kept += [text[end : max(start, end)], MASK if start >= end else ""]
            end = stop
    return "".join([*kept, text[end:]])


def _users(text: str) -> Iterator[tuple[int, int]]:
    return (found.span(1) for found in _USER.finditer(text) if found[0][:4].lower() == "http" and "/" not in found[1])


def find_secrets(content: Any) -> list[str]:
    """Return the paths of the texts that look like secrets, such as `environment.kwargs.headers[0].Authorization`.

    Texts that name an environment variable (`env:NAME`), placeholders and numbers do not count as secrets; a number
    does if its key says that it is a password.
    """
    return [redact(path) for path, name, value in _values(content, "", "") if _is_secret(name, value)]


def hide_secrets(content: Any, name: str = "") -> Any:
    """Return a copy, as plain JSON values, in which every text that looks like a secret is `***`.

    `name` is that of the setting which has the content.
    """
    if isinstance(content, Mapping):
        return {redact(str(key)): hide_secrets(value, str(key)) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [hide_secrets(each, name) for each in content]
    if not _is_secret(name, content):
        return redact(content) if isinstance(content, str) and not _named(content) else content
    by_form = isinstance(content, str) and any(secret_spans(_without_variables(content)))
    return redact(content) if by_form and not names_a_secret(name, content) else MASK


def _is_secret(name: str, value: Any) -> bool:
    if isinstance(value, str):
        by_name = not _named(value) and names_a_secret(name, value)
        return by_name or any(secret_spans(_without_variables(value)))
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_password = _PASSWORD.search(_WORD_ENDS.sub("_", name).lower())
    return is_number and len(str(value)) >= _SHORTEST_NUMBER and bool(is_password)


def _values(content: Any, path: str, name: str) -> Iterator[tuple[str, str, Any]]:
    """Yield (path, the key above it, value) for every value in nested maps and lists; keys are texts, too."""
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield f"{path}: a key", "", str(key)
            yield from _values(value, f"{path}.{key}" if path else str(key), str(key))
    elif isinstance(content, list | tuple):
        for place, value in enumerate(content):
            yield from _values(value, f"{path}[{place}]", name)
    else:
        yield path, name, content


_WHOLE = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")
_WITHIN = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")


def _named(text: str) -> list[str]:
    """Return the variables that a text names."""
    whole = _WHOLE.fullmatch(text)
    return [whole[1]] if whole else _WITHIN.findall(text)


def named_variables(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield (path of the text, name) for every variable that a text in nested maps and lists names.

    `path` is where `value` itself stands.
    """
    for place, _, text in _values(value, path, ""):
        if isinstance(text, str) and not place.endswith(": a key"):
            yield from ((place, name) for name in _named(text))


def _without_variables(text: str) -> str:
    return "" if _WHOLE.fullmatch(text) else _WITHIN.sub("", text)


def require(value: Any, path: str) -> None:
    """Raise ConfigError if a variable that a text within `value` names is not set or empty.

    The error lists all such variables with the paths of their settings; `path` is where `value` itself stands.
    """
    missing = [(place, name) for place, name in named_variables(value, path) if not os.environ.get(name)]
    if missing:
        said = "; ".join(f"{place} needs the variable {name}" for place, name in missing)
        raise ConfigError(
            f"{said}, which is not set or empty",
            where=path,
            fix=f"export {missing[0][1]}=... where the command runs, then start it again",
        )


def resolve(value: Any, path: str) -> Any:
    """Return a copy of nested maps and lists in which the value of each named variable stands in place of its name.

    From now on the values are `***` in all that this process prints, logs and stores (`hide`). Raises ConfigError as
    `require` does.
    """
    require(value, path)
    return _filled(value)


def _filled(value: Any) -> Any:
    if isinstance(value, str):
        whole = _WHOLE.fullmatch(value)
        return _read(whole[1]) if whole else _WITHIN.sub(lambda found: _read(found[1]), value)
    if isinstance(value, Mapping):
        return {key: _filled(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner) for inner in value]
    return value


def _read(name: str) -> str:
    value = os.environ[name]
    remember(value)
    return value


SHORTEST = 6
"""Fewest characters of a value that is hidden. A shorter one would occur in too many texts by chance."""
_hidden: set[str] = set()
_CREDENTIALS = re.compile(r"(?:Bearer|Basic|Token)\s+(\S+)|[a-z][a-z0-9+.-]*://[^\s/:@]*:(\S+)@\S*", re.IGNORECASE)


def remember(value: str) -> None:
    """Hide this value from now on, and the credentials within it (`Bearer KEY`, `https://user:password@host`)."""
    found = _CREDENTIALS.fullmatch(value.strip())
    for part in {value, value.strip(), *(group for group in (found.groups() if found else ()) if group)}:
        if len(part) >= SHORTEST:
            _hidden.update(_forms(part))


def _forms(value: str) -> set[str]:
    """Return the value as it may stand in a text: plain, and quoted for addresses, JSON and Python, and in base64.

    Where it stands within a longer text in base64 (`user:password`), that begins at one of three places in a group of
    three bytes; the signs that hold bits of its neighbours, too, are left out.
    """
    raw = value.encode()
    coded = {b64encode(bytes(k) + raw).decode()[-(-8 * k // 6) : 8 * (k + len(raw)) // 6] for k in range(3)}
    return {
        *coded,
        *(each.replace("+", "-").replace("/", "_") for each in coded),
        value,
        quote(value),
        quote(value, safe=""),
        quote_plus(value),
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        repr(value)[1:-1],
    }


def hide(text: str) -> str:
    """Return the text with `***` for every value that was read from a variable.

    The value is also found when it is quoted for an address, JSON or Python, or written in base64.
    """
    # A copy, as another thread may read a variable meanwhile; longest first, as one value may be a part of another.
    for value in sorted(_hidden.copy(), key=len, reverse=True):
        text = text.replace(value, MASK)
    return text


def hide_in(error: BaseException) -> None:
    """Hide the values in the texts of an error and of its causes, in place, before anybody keeps or prints them."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while _hidden and waiting:
        current = waiting.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        waiting += [current.__cause__, current.__context__]
        current.args = tuple(hide(each) if isinstance(each, str) else each for each in current.args)
        for name, value in vars(current).items():
            if isinstance(value, str):
                setattr(current, name, hide(value))


@contextmanager
def hiding() -> Iterator[None]:
    """Apply `hide_in` to whatever the code in this context raises; put it around an environment's code."""
    try:
        yield
    except BaseException as error:
        hide_in(error)
        raise


def hide_in_logs() -> None:
    """Hide the values in every line that any library logs from now on; calling it again changes nothing.

    It replaces the factory of log records, because every library's lines are made there.
    """
    make = logging.getLogRecordFactory()
    if getattr(make, "hides", False):
        return

    def record(*args: Any, **kwargs: Any) -> logging.LogRecord:
        made = make(*args, **kwargs)
        if _hidden:
            text = made.getMessage()
            if (hidden := hide(text)) != text:
                made.msg, made.args = hidden, ()
            if made.exc_info and made.exc_info[1]:
                hide_in(made.exc_info[1])
        return made

    record.hides = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(record)


class _Hiding:
    """A stream into which text is written without the values."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(hide(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def hide_in_output() -> None:
    """Hide the values also in what this process writes to stderr by itself, from now on: warnings, uncaught errors.

    Call once, in a process whose output goes to the user as it is.
    """
    hide_in_logs()
    stream: Any = _Hiding(sys.stderr)
    ExitStack().enter_context(redirect_stderr(stream))  # and never left
