"""What one person said of one attempt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from rlft.thinking import answer_of
from rlft.types import Reward, Rollout, Task


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a person said of an attempt at a task: what it deserves, and what would have been right.

    `deserved` is a share of the full reward, from 0 (nothing) to 1 (all of it); `answer` the right answer. What was not
    said is `None`. `full` is the highest total that the reward can give, that of its `environment` where the run has
    several; else that name is empty.
    """

    person: str
    task: Task
    rollout: Rollout
    reward: Reward
    full: float
    deserved: float | None = None
    answer: str | None = None
    why: str = ""
    environment: str = ""

    @property
    def text(self) -> str:
        """What the attempt answered in its last message by the model."""
        return answer_of(self.rollout.messages)

    @property
    def prompt(self) -> str:
        """The task's text."""
        return self.task.text


def deserving(opinions: Iterable[Opinion]) -> list[tuple[list[Opinion], float]]:
    """Return the opinions of each attempt that say what it deserves, with their mean, by the ids of the rollouts."""
    said = dict[str, list[Opinion]]()
    for opinion in opinions:
        if opinion.deserved is not None:
            said.setdefault(opinion.rollout.rollout_id, []).append(opinion)
    return [(found, fmean(each.deserved or 0.0 for each in found)) for _, found in sorted(said.items())]


def by_environment(opinions: Iterable[Opinion]) -> dict[str, list[Opinion]]:
    """Return the opinions on attempts in each of several environments by its name; all under no name else."""
    found = dict[str, list[Opinion]]()
    for opinion in opinions:
        found.setdefault(opinion.environment, []).append(opinion)
    return dict(sorted(found.items())) or {"": []}
