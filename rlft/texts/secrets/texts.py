"""Tells a secret by its form (tokens of known services, private keys, passwords in addresses) and by a setting's name.

`api_key` and `openaiKey` are names of secrets, `public_key` is none.
"""

from __future__ import annotations

import math
import re
from base64 import b64decode
from collections.abc import Iterator

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
_ONE_WORD = re.compile(r"[A-Z]?[a-z]+")  # one plain word, as in "password: required" or "token: str", is no secret


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
            if not _ONE_WORD.fullmatch(found[2]) and names_a_secret(found[1], found[2]):
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
