"""What a case of the benchmark of the reward audit is: an environment whose reward is broken, or honest."""

from __future__ import annotations

from dataclasses import dataclass

from rlft.contract.base import BaseEnv
from rlft.types import Task


@dataclass(frozen=True, slots=True)
class Case:
    """An environment with its tasks. `why` says in a sentence what the loophole is, or what an honest reward is for."""

    name: str
    family: str
    environment: BaseEnv
    tasks: tuple[Task, ...]
    why: str
