"""Files that are there whole or not at all."""

from __future__ import annotations

from pathlib import Path


def write_file(path: Path, text: str) -> None:
    """Write a small file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(path.suffix + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
