"""The texts of the forgetting suite, which were written for it: no model knows them that has not read rlft's code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

Texts = Mapping[str, tuple[str, ...]]  # paragraphs by the name of their text


def shipped_texts() -> dict[str, tuple[str, ...]]:
    """Return the paragraphs of each shipped text, by its name, such as `english`."""
    files = sorted((Path(__file__).parent / "texts").glob("*.txt"))
    return {file.stem: tuple(file.read_text(encoding="utf-8").strip().split("\n\n")) for file in files}


def fingerprint_texts(texts: Texts) -> str:
    """Return 16 hexadecimal digits that differ if a text does."""
    return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()[:16]
