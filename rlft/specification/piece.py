"""What all pieces of a specification have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Piece(BaseModel):
    """Base of all pieces, which takes no unknown keys, converts no types, refuses NaN and infinity, and is frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
