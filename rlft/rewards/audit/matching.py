"""Finds, among attempts in training, those that are an attack which the audit knows, word for word."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.marks import ToolSpec
from rlft.evaluation.diagnosis.monitors import LOOKED_AT
from rlft.evaluation.metrics import pair
from rlft.harness.scripted import Script
from rlft.rewards.audit.attacks import KINDS, attempts_at, kind_of
from rlft.rewards.audit.attacks.base import Known, Pool, other_gold
from rlft.rewards.audit.attacks.texts import calls_of, text_of
from rlft.rewards.audit.attempts import ask_attacks, ask_golds
from rlft.rewards.audit.findings import Findings
from rlft.types import Message, Rewards, Rollout, Rollouts, Task
from rlft.types.thinking import part

Said = tuple[str, str]
"""What an attempt says last, and its tool calls, as far as two attempts are told apart."""


@dataclass
class Matcher:
    """Knows the attacks at the train tasks of an environment, and which of them are `accepted`.

    Only kinds that are certain to deserve nothing are looked for, and none that is the answer to some train task. What
    an environment's own code fails to say, such as a gold, is left out.
    """

    tasks: Mapping[str, Task]
    environment: BaseEnv
    tools: Mapping[str, ToolSpec] = field(default_factory=dict)
    accepted: Collection[str] = ()
    seed: int = 0
    _attacks: dict[str, dict[Said, str]] = field(default_factory=dict)

    def attack_of(self, rollout: Rollout) -> str | None:
        """Return the kind of attack that an attempt is; `None` if it is none, or its task is not known."""
        task, said = self.tasks.get(rollout.task_id), _said(rollout.messages)
        if task is None or rollout.error is not None or said in self._answers:
            return None
        if task.id not in self._attacks:
            self._attacks[task.id] = self._attacks_at(task)
        return self._attacks[task.id].get(said)

    def _attacks_at(self, task: Task) -> dict[Said, str]:
        rival = other_gold(task, [*self.tasks.values()], self._golds, self._pool, self.seed)
        own = ask_attacks([task], self.environment, KINDS, Findings()).get(task.id, {})
        made = attempts_at(Known(task, self._golds.get(task.id), rival, self._pool, self.tools, own), all_kinds=True)
        kinds = [kind for kind in made if kind_of(kind).certain and kind not in self.accepted]
        return {_said(script): kind for kind in reversed(kinds) for script in made[kind]}

    @cached_property
    def _golds(self) -> dict[str, Script]:
        return ask_golds([*self.tasks.values()], self.environment, Findings())

    @cached_property
    def _pool(self) -> Pool:
        return Pool.of(self._golds, [*self.tasks.values()])

    @cached_property
    def _answers(self) -> frozenset[Said]:
        """What the golds of all tasks say."""
        return frozenset(map(_said, self._golds.values()))


def paid_attacks(matcher: Matcher, rollouts: Rollouts, rewards: Rewards, least: float) -> tuple[float, dict[str, int]]:
    """Return the share of the scored attempts that are a known attack and earn more than `least`, and their kinds.

    The attempts at `LOOKED_AT` tasks at most count, spread evenly over those of the round. The kinds are {name: how
    many attempts}, the most frequent first. The share is 0 where nothing was scored.
    """
    scored = [(rollout, reward.total) for rollout, reward in pair(rollouts, rewards) if reward.total is not None]
    tasks = list(dict.fromkeys(rollout.task_id for rollout, _ in scored))
    looked_at = set(tasks[:: max(1, math.ceil(len(tasks) / LOOKED_AT))])
    attempts = [(rollout, total) for rollout, total in scored if rollout.task_id in looked_at]
    found = [matcher.attack_of(rollout) for rollout, total in attempts if total > least]
    kinds = Counter(kind for kind in found if kind is not None)
    return (kinds.total() / len(attempts) if attempts else 0.0), dict(kinds.most_common())


def _said(messages: Sequence[Message]) -> Said:
    """Return what the assistant says last, and its calls; examples in a prompt stand in messages of their own."""
    script = tuple(message for message in messages if message["role"] == "assistant")
    if not script:
        return "", ""
    calls = [call["function"] for call in calls_of(script)]
    return " ".join(part(text_of(script)).answer.split()).casefold(), json.dumps(calls, sort_keys=True) if calls else ""
