"""What all sections of a config are."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Base of all sections: no unknown keys, no silent conversion, no NaN or infinity, no change after loading."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        protected_namespaces=(),
        hide_input_in_errors=True,  # it may be a secret
    )


def changed(section: Section, *names: str) -> dict[str, Any]:
    """Those of the settings that differ from their defaults."""
    fields = type(section).model_fields
    return {name: getattr(section, name) for name in names if getattr(section, name) != fields[name].default}
