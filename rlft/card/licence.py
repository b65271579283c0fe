"""The licence of a base model, as its own card names it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

logger = logging.getLogger(__name__)
_LONGEST = 1_000_000  # characters of a card that are read


@dataclass(frozen=True, slots=True)
class Licence:
    """Names a licence as the Hub does: an id such as `apache-2.0`, or `other` with a name and an address."""

    id: str
    name: str = ""
    link: str = ""


def read_licence(card: Path) -> Licence | None:
    """Return the licence that the front matter of a model card names; `None` if it is not there or names none."""
    try:
        with card.open(encoding="utf-8", errors="replace") as file:
            text = file.read(_LONGEST)
    except OSError:
        return None
    if not text.startswith("---"):
        return None
    try:
        front: Any = yaml.safe_load(text[3:].split("\n---", 1)[0])
    except (yaml.YAMLError, ValueError, RecursionError):
        logger.warning("%s: its front matter cannot be read, so the licence of the base model is not known", card)
        return None
    named = front.get("license") if isinstance(front, dict) else None
    if isinstance(named, list):  # the Hub takes a list, too
        named = named[0] if named else None
    if not isinstance(named, str) or not named:
        return None
    more = {key: front.get(f"license_{key}") for key in ("name", "link")}
    return Licence(named, **{key: value for key, value in more.items() if isinstance(value, str)})


def licence_of(base: str | None, folder: Path | None, revision: str | None = None) -> Licence | None:
    """Return the licence of a base model: by the card in its folder, else by that of the Hub, asked for a few seconds.

    `None` if neither names one.
    """
    if base is None:
        return None
    if folder is not None and (found := read_licence(folder / "README.md")) is not None:
        return found
    if Path(base).exists():
        return None
    from huggingface_hub import hf_hub_download

    try:
        return read_licence(Path(hf_hub_download(base, "README.md", revision=revision, etag_timeout=5)))
    except Exception as cause:  # whatever the Hub, a proxy or the network throws: a card is made without it
        logger.info("the licence of %s is not known: %s", base, cause)
        return None
