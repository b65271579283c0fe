"""Checks of server addresses: whether one can be used, and whether it hands out a cloud machine's credentials."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Where clouds answer a machine that asks for its own credentials, beside the link-local networks. The numeric ones are
# those of AWS (two), Google, Alibaba, Oracle and Azure.
_METADATA_NAMES = {
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "instance-data",
    "instance-data.ec2.internal",
    "metadata.azure.internal",
    "metadata.tencentyun.com",
}
_METADATA = {
    ipaddress.ip_address(address)
    for address in ("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "100.100.100.200", "192.0.0.192", "168.63.129.16")
}
_HOLD_IPV4 = [  # IPv6 networks with an IPv4 address in the last 32 bits: RFC 4291, RFC 2765, RFC 6052, RFC 8215
    ipaddress.IPv6Network(network) for network in ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")
]
_URL = re.compile(r"(?:\b[a-z][a-z0-9+.-]{0,30}:)?[/\\]{2}[^\s\"'<>]+", re.IGNORECASE)
_BARE = re.compile(r"(\[[0-9a-f:.%]+\]|[^\s/:@\[\]]+\.[^\s/:@\[\]]+)(?::[0-9]+)?(?:/\S*)?", re.IGNORECASE)


def check_address(address: str, *, path: str = "") -> str:
    """Return the address without a slash at its end.

    Raises ValueError if it is not `scheme://host:port` or leads to a metadata service; the text shows no password. With
    a `path`, such as `/v1`, the address may have one, too, and this is the example.
    """
    if "@" in address:
        raise ValueError(f"what has an @, and may hold a password, is no address such as http://127.0.0.1:8000{path}")
    if not _is_usable(address, has_path=bool(path)):
        raise ValueError(f"{address!r} is no address such as http://127.0.0.1:8000{path}")
    refuse_metadata(address)
    return address.rstrip("/")


class WebhookError(ValueError):
    """Raised for the address of a webhook that cannot be used; the text shows nothing of it, as it may hold a token."""


def check_webhook(address: str) -> None:
    """Raise WebhookError if an address is none of HTTP with a host and a port that exists, or leads to metadata."""
    try:
        parts = urlsplit(address)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        fits = fits and address.isprintable() and " " not in address
        (parts.hostname or "").encode("idna")
    except ValueError:  # brackets, a port or a host's name that make no sense
        fits = False
    if not fits:
        raise WebhookError("it is no address such as https://HOST/PATH or http://HOST:PORT/PATH")
    try:
        refuse_metadata(address)
    except ValueError:
        raise WebhookError(
            "it is a link-local or metadata address, by which a machine hands out its credentials"
        ) from None


def refuse_metadata(address: str) -> None:
    """Raise ValueError if the address is link-local or a cloud's metadata service, in whichever way it is written."""
    hosts = _hosts(address)
    for host in hosts:
        if host in _METADATA_NAMES or any(found.is_link_local or found in _METADATA for found in _numbers(host)):
            raise ValueError(
                f"{host} hands out a machine's own credentials (a link-local or metadata address); name another server"
            )
    if "\\" in address and "@" in address:
        raise ValueError("an address with a backslash and an @ leads elsewhere than it seems; write it without these")


def named_addresses(content: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield (path, address) for every address in the texts of nested maps and lists; `path` is where `content` stands.

    An address has a scheme or two slashes and may stand anywhere in a text, or it is a whole text without these:
    `host.domain:80/path`. Addresses in keys of maps count too.
    """
    if isinstance(content, str):
        whole = content.strip()
        if _BARE.fullmatch(whole):
            yield path, f"//{whole}"
        elif whole.count(":") > 1 and any(_numbers(whole)):
            yield path, f"//[{whole}]"
        else:
            yield from ((path, found) for found in _URL.findall(content))
    elif isinstance(content, Mapping):
        for key, value in content.items():
            yield from named_addresses(key, f"{path}: a key")
            yield from named_addresses(value, f"{path}.{key}")
    elif isinstance(content, list | tuple):
        for place, value in enumerate(content):
            yield from named_addresses(value, f"{path}[{place}]")


def _is_usable(address: str, *, has_path: bool) -> bool:
    """Return whether the address is a scheme, a host and perhaps a port or a path, and httpx accepts it."""
    import httpx  # here, because it takes a quarter of a second, which only a config with an address needs to spend

    try:
        parts = urlsplit(address)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        fits = fits and (has_path or parts.path in ("", "/")) and not set(address) & set("?#@\\")
        fits = fits and address.isprintable() and " " not in address  # urlsplit drops line breaks and tabs
        (parts.hostname or "").encode("idna")
        return fits and bool(httpx.URL(address).host)
    except (ValueError, httpx.InvalidURL):  # brackets, a port or a host's name that make no sense
        return False


def _hosts(address: str) -> list[str]:
    """Return the hosts that different programs read from an address.

    Some take a backslash for a slash, others do not.
    """
    return [_host(address), _host(address.replace("\\", "/")), _host_of_httpx(address)]


def _host_of_httpx(address: str) -> str:
    if address[:4].lower() != "http":
        return ""
    import httpx

    try:
        return _as_asked(httpx.URL(address).host)
    except (ValueError, httpx.InvalidURL):  # nothing that httpx could ask
        return ""


def _host(address: str) -> str:
    try:
        return _as_asked(unquote(urlsplit(address).hostname or ""))
    except ValueError:
        return ""


def _as_asked(host: str) -> str:
    """Return the host in the form that is looked up in the DNS.

    That is in lower case, without a dot at its end, with letters beyond ASCII by IDNA.
    """
    return host.encode("idna").decode().lower().rstrip(".")


def _numbers(host: str) -> Iterator[_Address]:
    """Yield the IP addresses that a host's name spells: dotted, decimal, octal or hexadecimal, and IPv4 within IPv6."""
    try:
        found: _Address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        try:
            found = ipaddress.ip_address(socket.inet_aton(host))  # as the C library reads 0xa9fea9fe and 2852039166
        except OSError:
            return
    yield found
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour
        if any(found in network for network in _HOLD_IPV4):
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is not None:
            yield inner
