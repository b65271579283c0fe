"""A case of the audit's benchmark: an environment whose reward is broken or honest, and its tasks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rlft.environments.contract.base import BaseEnv
from rlft.types import Task


@dataclass(frozen=True, slots=True)
class Case:
    """A reward with its tasks. `family` is what the reward is about; `why` its loophole, or what an honest one is for.

    The gold of every task earns the full reward, of a broken reward too.
    """

    name: str
    family: str
    environment: BaseEnv
    tasks: tuple[Task, ...]
    why: str


def make_tasks(name: str, rows: Iterable[tuple[Any, ...]], template: str = "{}") -> tuple[Task, ...]:
    """Return tasks of the split `train` from rows of (prompt, answer) or (prompt, answer, info).

    `template` holds `{}` where the row's prompt goes; `name` is that of the case.
    """
    tasks = []
    for number, (prompt, answer, *info) in enumerate(rows):
        id = f"{name}-{number}"
        message = {"role": "user", "content": template.format(prompt)}
        columns = {"prompt": message["content"], "answer": answer, **(info[0] if info else {})}
        tasks.append(
            Task(
                id=id,
                environment=name,
                prompt=(message,),  # type: ignore[arg-type]
                answer=answer,
                info=columns,
                split="train",
                group=id,
            )
        )
    return tuple(tasks)
