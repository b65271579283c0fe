"""Writes the page of the attempts of a round that its reward pays most, for a person to read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rlft.messages import printable, written
from rlft.reporting.template import cut, open_template
from rlft.rewards.review.choosing import choose, said_in
from rlft.types import Message, Rewards, Rollouts, Task


@dataclass(frozen=True, slots=True)
class Paid:
    """An attempt as the page shows it: its last question, and all that came after; `copies` of the task's say it."""

    rollout_id: str
    task_id: str
    total: float
    parts: Mapping[str, float | None]
    copies: int
    messages: tuple[tuple[str, str], ...]
    right: str | None


def highest_paid(rollouts: Rollouts, rewards: Rewards, tasks: Mapping[str, Task], count: int) -> list[Paid]:
    """Return the `count` highest-paid attempts, the best first; of those at one task that say the same one is taken.

    They are those that `rlft review` takes from the round.
    """
    said = Counter((each.task_id, said_in(each)) for each in rollouts)
    found = choose(rollouts, rewards, highest=count, disputed=0, random=0)
    return [
        Paid(
            each.rollout.rollout_id,
            each.rollout.task_id,
            each.reward.total or 0.0,
            each.reward.parts,
            said[each.rollout.task_id, said_in(each.rollout)],
            tuple(_shown(each.rollout.messages)),
            _right(tasks.get(each.rollout.task_id)),
        )
        for each in found
    ]


def highest_paid_page(name: str, round: int, attempts: list[Paid], sampled: int) -> str:
    """Return the page of a run's round as HTML, which needs nothing beside it. What attempts say is text in it."""
    return open_template("highest_paid.html.j2").render(
        title=f"{name}, round {round}: the {len(attempts)} highest-paid attempts",
        about=f"Of {sampled} attempts of the round. Each stands for all at its task that say the same.",
        attempts=attempts,
        cut=cut,
    )


def _shown(messages: tuple[Message, ...]) -> Iterator[tuple[str, str]]:
    """Yield (role, text) from the last message before the first answer on, calls of tools included."""
    roles = [message["role"] for message in messages]
    first = roles.index("assistant") if "assistant" in roles else len(roles)
    for message in messages[max(0, first - 1) :]:
        calls = [_call(call["function"]) for call in message.get("tool_calls", [])]
        yield message["role"], printable("\n".join(filter(None, [written(message), *calls])))


def _call(function: Mapping[str, Any]) -> str:
    return f"{function['name']}({json.dumps(function['arguments'], ensure_ascii=False)})"


def _right(task: Task | None) -> str | None:
    if task is None or task.answer is None:
        return None
    return printable(task.answer if isinstance(task.answer, str) else json.dumps(task.answer, ensure_ascii=False))
