"""The base class of all sections of a config."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Base of all sections, which takes no unknown keys, converts no types, refuses NaN and infinity, and is frozen."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,  # the input may be a secret
    )


def changed(section: Section, *names: str) -> dict[str, Any]:
    """Return {name: value} of those of the named settings that differ from their defaults."""
    fields = type(section).model_fields
    return {name: getattr(section, name) for name in names if getattr(section, name) != fields[name].default}
