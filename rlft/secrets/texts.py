"""Finds secrets in a text by their form: tokens of known services, private keys, passwords in addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rlft.secrets.names import looks_random, names_a_secret

MASK = "***"
_FORMS = re.compile(
    r"""(?x)
    (?<![A-Za-z0-9])(?:
        gsk_\w{16,} | [sr]k_(?:live|test)_\w{10,} | whsec_[\w+/]{10,}          # Groq, Stripe
      | hf_[A-Za-z0-9]{16,}                                                   # Hugging Face
      | gh[pousr]_[A-Za-z0-9]{16,} | github_pat_\w{16,}                       # GitHub
      | glpat-[\w-]{16,}                                                      # GitLab
      | xox[abeoprs]-[\w-]{10,} | https://hooks\.slack\.com/services/\S+      # Slack
      | (?:AKIA|ASIA)[A-Z0-9]{16}                                             # AWS
      | AIza[\w-]{30,} | ya29\.[\w-]{16,}                                     # Google
      | r8_\w{16,} | SG\.[\w-]{8,}\.?[\w-]*                                    # Replicate, SendGrid
      | dop_v1_\w{10,} | shpat_\w{10,} | wandb_v1_\w{10,}                      # DigitalOcean, Shopify, W&B
      | https://discord(?:app)?\.com/api/webhooks/[0-9]+/[\w-]+              # Discord
      | pypi-[\w-]{16,} | npm_[A-Za-z0-9]{16,}
      | eyJ[\w-]{5,}\.eyJ[\w-]{5,}(?:\.[\w-]*)?                               # a JSON web token (RFC 7519)
    )
    | -----BEGIN\ [A-Z0-9 ]*PRIVATE\ KEY[A-Z ]*-----(?s:.*?)(?:-----END\ [A-Z0-9 ]*-----|\Z)
    """
)
_DASHED = re.compile(
    r"(?<![A-Za-z0-9])(?:sk|xai|pplx|tvly|nvapi)-([A-Za-z0-9_-]{12,})"
)  # OpenAI, Anthropic, xAI and others
_TELEGRAM = re.compile(r"/bot[0-9]+:([\w-]{6,})")
_SCHEME = re.compile(r"\b(?:Bearer|Basic)\s+([\w.~+/-]{7,}\w=*)", re.IGNORECASE)
# Up to the last @: a password may hold a slash, a colon or another @.
_USER = re.compile(r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,30}://([^\s\"<>]{1,1000})@", re.IGNORECASE)
_PORT_AND_PATH = re.compile(r"[0-9]{1,5}[/?#]")
_PAIR = re.compile(r"(?:^|(?<=[?&;\s]))-{0,2}([A-Za-z][\w.-]*(?: [A-Za-z]+)?)=([^&;\s#\"'<>{}]+)")
_SIGNED = ("sig", "signature")
_QUOTED = re.compile(
    r"(?<![\w.-])([A-Za-z][\w.-]*)\\?[\"']?\s{0,9}[:=]\s{0,9}\\?[\"']([^\s\"'\\]+)\\?[\"']"
)  # JSON, Python, TOML
_LINE = re.compile(r"^[ \t]*(?:export )?([A-Za-z][\w-]*)[ \t]*[:=][ \t]+(\S+)[ \t]*$", re.MULTILINE)
_OPTION = re.compile(r"(?<!\S)--([A-Za-z][\w-]*)\s([^\s-]\S*)")
_CURL = re.compile(r"\s(?:-u|--user)[\s=]?([^\s:]+:\S+)")
_WORD = re.compile(r"[A-Z]?[a-z]+")  # one plain word, as in "password: required" or "token: str", is no secret
_HEADER = re.compile(r"\s*([A-Za-z][A-Za-z0-9_-]*):\s+([^\s{}]+(?: [^\s{}]+)?)\s*")


def secret_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of every secret in a text, in any order; the spans may overlap."""
    for found in _FORMS.finditer(text):
        yield found.span()
    for pattern in (_DASHED, _SCHEME):
        for found in pattern.finditer(text):
            if looks_random(found[1]):
                yield found.span(1 if pattern is _SCHEME else 0)
    for found in _TELEGRAM.finditer(text):
        yield found.span(1)
    for found in _CURL.finditer(text) if "curl" in text else ():
        yield found.span(1)
    for found in _USER.finditer(text):
        if _has_credentials(found[1]):
            yield found.span(1)
    for found in _PAIR.finditer(text):
        name, value = found.groups()
        if name.lower().endswith(_SIGNED) or names_a_secret(name, value):
            yield found.span(2)
    for pattern in (_QUOTED, _LINE, _OPTION):
        for found in pattern.finditer(text):
            if not _WORD.fullmatch(found[2]) and names_a_secret(found[1], found[2]):
                yield found.span(2)
    if (found := _HEADER.fullmatch(text)) and _is_header(found[1], found[2]):
        yield found.span(2)


def redact(text: str) -> str:
    """Return the text with `***` for every secret that shows by its form, and for the users in web addresses."""
    end, kept = 0, list[str]()
    for start, stop in sorted({*secret_spans(text), *_users(text)}):
        if stop > end:
            kept += [text[end : max(start, end)], MASK if start >= end else ""]
            end = stop
    return "".join([*kept, text[end:]])


def _is_header(name: str, value: str) -> bool:
    """Return whether a line is a header with a secret (`Authorization: Bearer a1`), no sentence (`Token: needed`)."""
    said = all(_WORD.fullmatch(word) for word in value.split())
    return not said and names_a_secret(name, value)


def _users(text: str) -> Iterator[tuple[int, int]]:
    return (found.span(1) for found in _USER.finditer(text) if found[0][:4].lower() == "http" and "/" not in found[1])


def _has_credentials(before_at: str) -> bool:
    """Return whether `user:password`, or a token alone, stands before the @ of an address.

    `host:80/page` does not count.
    """
    user, colon, password = before_at.partition(":")
    if set(user) & set("/?#"):
        return False
    return bool(password) and not _PORT_AND_PATH.match(password) if colon else looks_random(user)
