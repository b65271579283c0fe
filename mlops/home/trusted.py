"""Notes in a home whose settings this account trusts: those of its own runs, and of others' runs that it agreed to.

A home may come from elsewhere, and others may write into the database of a stack. So a note is a keyed hash, whose key
lies in the account's own folder (`~/.config/rlft/key`) and in no home.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlops.home.folder import Home
from rlft.files import PARTIAL, make_private

logger = logging.getLogger(__name__)
_BYTES = 32  # of the key, as long as the hash


def trust(home: Home, settings: Mapping[str, Any]) -> None:
    """Note that this account trusts the settings of a run, as they are stored with it.

    Where the key or the home cannot be written to, nothing is noted: then they count as somebody else's.
    """
    if is_trusted(home, settings):
        return
    try:
        line = f"{_digest(_key(), settings)}\n"
        file = _file(home)
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(file, "a", encoding="ascii", opener=_no_link) as notes:
            notes.write(line)
    except (OSError, ValueError) as cause:
        logger.warning("a resume of this run will ask whether it is yours, as that cannot be noted: %s", cause)


def is_trusted(home: Home, settings: Mapping[str, Any]) -> bool:
    """Return whether this account has noted in this home that it trusts exactly these settings."""
    try:
        noted, key = _file(home).read_text(encoding="ascii").split(), _key()
    except (OSError, ValueError):
        return False
    return _digest(key, settings) in noted


def _digest(key: bytes, settings: Mapping[str, Any]) -> str:
    return hmac.new(key, json.dumps(settings, sort_keys=True).encode(), hashlib.sha256).hexdigest()


def _file(home: Home) -> Path:
    return home.root / "runs" / "trusted"


def _key() -> bytes:
    """Return the account's key, which is made when it is first needed. Raises OSError."""
    folder = _account_folder()
    file = folder / "key"
    if not file.exists():
        make_private(folder)
        partial = folder / f".{secrets.token_hex(8)}{PARTIAL}"
        with open(partial, "x", encoding="ascii", opener=_for_owner_alone) as made:
            made.write(secrets.token_hex(_BYTES))
        try:
            os.link(partial, file)  # not a rename: of two processes the first makes the key that both use
        except FileExistsError:
            logger.debug("another process has made %s", file)
        finally:
            partial.unlink()
    key = bytes.fromhex(file.read_text(encoding="ascii"))
    if len(key) != _BYTES:
        raise OSError(f"{file} is no key of {_BYTES} bytes")
    return key


def _account_folder() -> Path:
    """Return the folder of rlft's among those of the account's settings. Raises OSError for an account without any."""
    try:
        return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "rlft"
    except RuntimeError as cause:  # a user of a container that no file knows
        raise OSError("this account has no folder of its own; HOME can name one") from cause


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, mode=0o600)  # a home from elsewhere may hold one to any file


def _for_owner_alone(path: str, flags: int) -> int:
    return os.open(path, flags, mode=0o600)
