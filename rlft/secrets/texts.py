"""Finds secrets in a text by their form: tokens of known services, private keys, passwords in addresses."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator

from rlft.secrets.names import looks_random, names_a_secret

MASK = "***"
# What tokens of known services begin with: OpenAI and many others, Groq, Hugging Face, GitHub, Slack, AWS, Google, ...
_PREFIXES = """
sk- sk_live_ sk_test_ rk_live_ rk_test_ whsec_ gsk_ xai- pplx- tvly- nvapi- r8_ hf_ csk- tgp_v1_ pcsk_ jina_
e2b_ lsv2_ wandb_v1_ ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- gldt- glrt- glptt- GR1348941 xoxa- xoxb- xoxe- xoxe.
xoxo- xoxp- xoxr- xoxs- xapp- AIza ya29. GOCSPX- SG. dop_v1_ doo_v1_ dor_v1_ shpat_ shpss_ shpca_ shppa_
sq0atp- sq0csp- EAAA pypi- npm_ dckr_pat_ dckr_oat_ dapi lin_api_ ntn_ figd_ PMAK- NRAK- NRII- hvs. hvb. atlasv1. ATATT
ATCTT sbp_ sntrys_ sntryu_ glsa_ glc_ dp.pt. dp.st. pscale_tkn_ pscale_pw_ rubygems_ CLOJARS_ HRKU- AGE-SECRET-KEY- pul-
fw_ pa- sk_ fc- ak- as- rpa_ sb_secret_ ATBB phx_ ABSK
"""
_TOKEN = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, _PREFIXES.split()))})([\w.-]{{12,}})")
_BITS = 30  # in what follows a prefix
_FORMS = re.compile(
    r"""(?x)
    (?<![A-Za-z0-9])(?:
        https://(?:hooks\.slack\.com/services|discord(?:app)?\.com/api/webhooks|[\w-]+\.webhook\.office\.com)/\S+
      | [\w.-]{3}[0-9]Q~[\w.~-]{31,34}                                         # a client secret of Azure
      | (?:AKIA|ASIA)[A-Z0-9]{16} | (?:SK|key-)[0-9a-f]{32} | secret_[A-Za-z0-9]{43}  # AWS, Twilio, Mailgun, Notion
      | (?:bot)?[0-9]{6,12}:[\w-]{30,}                                        # Telegram
      | eyJ[\w-]{5,}\.eyJ[\w-]{5,}(?:\.[\w-]*)?                               # a JSON web token (RFC 7519)
    )
    | -----BEGIN\ [A-Z0-9 ]*PRIVATE\ KEY[A-Z ]*-----(?s:.*?)(?:-----END\ [A-Z0-9 ]*-----|\Z)
    """
)
_SCHEME = re.compile(r"\b(?:Bearer|Basic)\s+([\w.~+/-]{7,}\w=*)", re.IGNORECASE)
# Up to the last @: a password may hold a slash, a colon or another @.
_USER = re.compile(r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,30}://([^\s\"<>]{1,1000})@", re.IGNORECASE)
_PORT_AND_PATH = re.compile(r"[0-9]{1,5}[/?#]")
_PAIR = re.compile(r"(?:^|(?<=[?&;\s]))-{0,2}([A-Za-z][\w.-]*(?: [A-Za-z]+)?)=([^&;\s#\"'<>{}]+)")
_QUOTED = re.compile(
    r"(?<![\w.-])([A-Za-z][\w.-]*)\\?[\"']?\s{0,9}[:=]\s{0,9}\\?[\"']([^\s\"'\\]+)\\?[\"']"
)  # JSON, Python, TOML
_LINE = re.compile(r"^[ \t]*(?:export )?([A-Za-z][\w-]*)[ \t]*[:=][ \t]+((?:(?:Bearer|Basic|Token) )?\S+)[ \t]*$", re.M)
_OPTION = re.compile(r"(?<!\S)--([A-Za-z][\w-]*)\s([^\s-]\S*)")
_CURL = re.compile(r"\s(?:-u|--user)[\s=]?([^\s:]+:\S+)")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{20,}={0,2}")
_WORD = re.compile(r"[A-Z]?[a-z]+")  # one plain word, as in "password: required" or "token: str", is no secret


def secret_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of every secret in a text, in any order; the spans may overlap.

    A text that is base64 as a whole is one if it holds one.
    """
    if _BASE64.fullmatch(text) and any(secret_spans(b64decode(text[: len(text) // 4 * 4]).decode("ascii", "replace"))):
        yield 0, len(text)
    for found in _FORMS.finditer(text):
        yield found.span()
    for found in _TOKEN.finditer(text):
        if looks_random(found[1], _BITS):
            yield found.span()
    for found in _SCHEME.finditer(text):
        if looks_random(found[1]):
            yield found.span(1)
    for found in _CURL.finditer(text) if "curl" in text else ():
        yield found.span(1)
    for found in _USER.finditer(text):
        if _has_credentials(found[1]):
            yield found.span(1)
    for found in _PAIR.finditer(text):
        name, value = found.groups()
        if name.lower().endswith(("sig", "signature")) or names_a_secret(name, value):
            yield found.span(2)
    for pattern in (_QUOTED, _LINE, _OPTION):
        for found in pattern.finditer(text):
            if not _WORD.fullmatch(found[2]) and names_a_secret(found[1], found[2]):
                yield found.span(2)


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


def _has_credentials(before_at: str) -> bool:
    """Return whether `user:password`, or a token alone, stands before the @ of an address.

    `host:80/page` does not count.
    """
    user, colon, password = before_at.partition(":")
    if set(user) & set("/?#"):
        return False
    return bool(password) and not _PORT_AND_PATH.match(password) if colon else looks_random(user)
