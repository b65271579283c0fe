"""Which requests are refused because a page in a browser may have made them without its user's knowledge.

A page of any site can make a browser send a request to this machine. It cannot send JSON in this way unless the server
allows it, and it cannot hide the host that it names (the Fetch standard, "CORS-safelisted request-header", and RFC
9110, 7.2).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

# What a page may send to any host without being allowed to; nothing at all is such a type, too.
_OF_ANY_PAGE = frozenset({"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"})


def refusal(method: str, headers: Mapping[str, str], *, local: bool) -> tuple[int, str] | None:
    """Return the status and the sentence with which a request is refused; `None` if it is not.

    `local` says that the server listens on loopback: a request must then name loopback as its host, and as its origin,
    if it has one.
    """
    named = {"Host": f"//{headers.get('host', '')}", "Origin": headers.get("origin")}
    for header, address in named.items() if local else ():
        if address is not None and not _is_loopback(address):
            return 403, f"the header {header} names another host than this machine; a proxy in between must set it anew"
    if method == "POST" and headers.get("content-type", "").split(";")[0].strip().lower() in _OF_ANY_PAGE:
        return 415, "the body must be JSON; send the header Content-Type: application/json"
    return None


def _is_loopback(address: str) -> bool:
    try:
        host = urlsplit(address).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
