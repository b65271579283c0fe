"""Opens the templates of pages: what models, tasks and users wrote is shown in them as text, and none of it can run."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from rlft.texts.characters import visible

LONGEST = 1500  # characters of a text of an attempt


def open_template(name: str) -> Template:
    """Return a template of this room, in which every text is escaped, its control characters too."""
    environment = Environment(
        loader=PackageLoader("rlft.reporting", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=_shown,
    )  # fmt: skip
    return environment.get_template(name)


def visible_lines(text: str) -> str:
    """Return a text with its control characters escaped; line breaks stay."""
    return "\n".join(visible(line) for line in text.split("\n"))


def cut(text: str) -> str:
    """Return the beginning of a long text, and how much more there is."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ... ({len(text) - LONGEST:,} more characters)"


def _shown(value: Any) -> Any:
    return value if isinstance(value, Markup) or not isinstance(value, str) else visible_lines(value)
