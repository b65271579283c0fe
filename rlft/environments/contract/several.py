"""Environments that a config makes: several held as one, and one whose reward is a specification.

Of several each task belongs to a member, and only that one ever sees it. `Task.environment` is the name of its member.
What asks a task's own environment (its context, its gold) may ask `Several`. What talks to an environment as a whole
(its tools, its reward) goes from member to member by `in_turn`.

A specification is an argument beside those of the constructor, as JSON text under the key `SPECIFICATION`. So it goes
wherever an environment's name and arguments go: to worker processes, into stored configs, and to those who load it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from rlft.config.section import SPECIFICATION
from rlft.environments.contract.base import BaseEnv, Context
from rlft.errors import TaskError
from rlft.types import Message, Task

if TYPE_CHECKING:
    from rlft.rewards.specification.model import Specification

Item = TypeVar("Item")
Result = TypeVar("Result")


class Several(BaseEnv):
    """Holds environments by their names in the config. It has no tools and no reward of its own."""

    def __init__(self, members: Mapping[str, BaseEnv]) -> None:
        """Take the members."""
        self.members = dict(members)

    def member(self, task: Task) -> BaseEnv:
        """Return the environment of a task. Raises TaskError for a task of none of them."""
        if task.environment not in self.members:
            raise TaskError(
                f"task {task.id} belongs to {task.environment!r}, which is none of {', '.join(self.members)}",
                where="environments",
                fix="take the tasks that the config's own environments have",
            )
        return self.members[task.environment]

    def context(self, task: Task) -> Context | Mapping[str, Any] | str:
        """Return what the task's own environment says."""
        return self.member(task).context(task)

    def gold_completion(self, task: Task) -> str | Sequence[Message] | None:
        """Return what the task's own environment says."""
        return self.member(task).gold_completion(task)

    def demonstration(self, task: Task) -> str | Sequence[Message] | None:
        """Return what the task's own environment says."""
        return self.member(task).demonstration(task)


def in_turn(
    items: Sequence[Item],
    task_of: Callable[[Item], Task],
    environment: BaseEnv,
    do: Callable[[Sequence[Item], BaseEnv], Sequence[Result]],
) -> list[Result]:
    """Return what `do` returns for the items of each member, in the order of all `items`.

    `do` gets the items of one member and that member, one member after the other, and returns a result for each item.
    Where the environment is a single one it gets all items. Raises TaskError for a task of no member.
    """
    if not isinstance(environment, Several):
        return list(do(items, environment))
    found: dict[int, Result] = {}
    for name, places in places_of(environment, [task_of(item) for item in items]).items():
        some = [items[place] for place in places]
        found |= zip(places, do(some, environment.members[name]), strict=True)
    return [found[place] for place in range(len(items))]


def places_of(environment: Several, tasks: Sequence[Task]) -> dict[str, list[int]]:
    """Return {member: the places of its tasks}, in the order of the members, without those that have none here.

    Raises TaskError for a task of no member.
    """
    for task in tasks:
        environment.member(task)
    places = {name: [p for p, task in enumerate(tasks) if task.environment == name] for name in environment.members}
    return {name: found for name, found in places.items() if found}


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
