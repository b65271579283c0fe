"""Opens the templates of pages: what models, tasks and users wrote is shown in them as text, and none of it can run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from rlft.texts.characters import visible

LONGEST = 1500  # characters of a text of an attempt


def shown(value: Any) -> Any:
    """Return a text with its control characters escaped; what else a template shows stays as it is."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else visible(value)


def open_template(name: str, finalize: Callable[[Any], Any] = shown) -> Template:
    """Return a template of this room. `finalize` makes each text safe to show; in HTML it is escaped, too."""
    environment = Environment(
        loader=PackageLoader("rlft.reporting", "."), autoescape=name.endswith(".html.j2"), undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, finalize=finalize,
    )  # fmt: skip
    return environment.get_template(name)


def cut(text: str) -> str:
    """Return the beginning of a long text, and how much more there is."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ... ({len(text) - LONGEST:,} more characters)"
