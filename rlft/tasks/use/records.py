"""Records of use, as MLflow's traces are read, the account of each, and what marks a task made of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from rlft.types import Task

if TYPE_CHECKING:  # the room imports scipy, which a command that only looks at files need not wait for
    from rlft.tasks.contamination.overlap import Text

Reason = Literal[
    "failed",
    "other_feedback",
    "no_prompt",
    "not_a_question",
    "too_long",
    "no_gold",
    "people_disagree",
    "other_gold",
    "repeated",
    "in_train",
    "near_train",
    "in_held_out",
    "near_held_out",
    "in_demonstrations",
    "near_demonstrations",
    "trained_before",
    "beyond_most",
    "beyond_max_share",
]
"""Why a record is no task; docs/guide/use.md says what each means."""
REASONS: tuple[Reason, ...] = get_args(Reason)


@dataclass(frozen=True, slots=True)
class Said:
    """What a person said of a record under a name.

    `person` is who (an empty text if nobody knows), `kind` whether it is what was expected or feedback on the answer,
    `time` milliseconds since the epoch.
    """

    person: str
    kind: Literal["expectation", "feedback"]
    name: str
    value: Any
    time: int


@dataclass(frozen=True, slots=True)
class Record:
    """A trace: what was asked, what was answered, and what people said.

    `inputs` and `output` are JSON values as they were logged, `time` is milliseconds since the epoch.
    """

    id: str
    inputs: Any
    output: Any = None
    tags: Mapping[str, str] = field(default_factory=dict)
    time: int = 0
    failed: bool = False
    said: tuple[Said, ...] = ()


@dataclass(frozen=True, slots=True)
class Use:
    """All that a run reads of use, beside the config.

    `demonstrations` are conversations that it imitates, `trained_before` the hashes (`rlft.evaluation.gates.task_hash`)
    of what the champion was trained on.
    """

    where: str
    records: tuple[Record, ...]
    demonstrations: tuple[Text, ...] = ()
    trained_before: frozenset[str] = frozenset()


@dataclass(slots=True)
class Account:
    """Which records were left out, and why: each once, so that they and the tasks add up to what was found."""

    left_out: Counter[Reason] = field(default_factory=Counter)

    def leave_out(self, reason: Reason, records: Iterable[Record] | int = 1) -> None:
        """Count records, or so many of them."""
        count = records if isinstance(records, int) else sum(1 for _ in records)
        if count:
            self.left_out[reason] += count


TRACE, STRATUM = "trace_id", "stratum"


def is_from_use(task: Task) -> bool:
    """Return whether a task was made of a record of use, and not of a row of the source."""
    return TRACE in task.info and STRATUM in task.info


def without_use(tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks that were made of rows of the source, which who wrote the reward vouches for."""
    return [task for task in tasks if not is_from_use(task)]


def texts_from_use(tasks: Iterable[Task]) -> dict[str, str]:
    """Return {id: the text of its right answer, empty if it has none} of the tasks from use."""
    return {task.id: task.answer if isinstance(task.answer, str) else "" for task in tasks if is_from_use(task)}
