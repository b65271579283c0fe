"""Environments whose reward is a specification: how the rest of rlft knows of it.

The specification is an argument beside those of the constructor, as JSON text under the key `SPECIFICATION`. So it goes
wherever an environment's name and arguments go: to worker processes, into stored configs, and to those who load it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlft.config.names import SPECIFICATION
from rlft.contract.base import BaseEnv

if TYPE_CHECKING:  # so that graders are no code of a harness
    from rlft.specification import Specification

MAKER = "rlft.environments.specified:specified"
"""What makes the class. By its name, as the code of graders is none that a harness is made of."""
HELD, WRITTEN = "_rlft_specification", "_rlft_written_class"
"""Attributes of such a class, under names that no subclass uses: its specification, and the class as it is written."""


def without_specification(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the environment's constructor alone."""
    return {name: value for name, value in kwargs.items() if name != SPECIFICATION}


def specification_of(environment: BaseEnv) -> Specification | None:
    """Return the specification that an environment's reward is; `None` where its reward is code."""
    return getattr(type(environment), HELD, None)


def written_class(environment: BaseEnv) -> type[BaseEnv]:
    """Return the environment's class as its author wrote it."""
    return getattr(type(environment), WRITTEN, type(environment))
