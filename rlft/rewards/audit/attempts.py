"""Asks an environment for golds and its own attacks, chooses attempts, as many as the time allows, and plays them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlft.config import HarnessConfig, RewardConfig
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.faults import described, failure_of
from rlft.errors import ConfigError, RlftError
from rlft.harness.scripted import Part, Script, as_script, play_scripts
from rlft.outcome import Failure
from rlft.progress import Progress
from rlft.rewards.audit.attacks import attempts_at
from rlft.rewards.audit.attacks.base import Known
from rlft.rewards.audit.findings import Findings
from rlft.rewards.audit.report import GOLD, GOLD_KIND, Problem
from rlft.rewards.scoring import compares, score_rollouts
from rlft.types import Reward, Rewards, Rollout, Rollouts, Task

ATTACKED = 12
"""How many tasks are attacked by all kinds at most."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A kind of attempt at a task, and one of its variants.

    `calls_otherwise` says that it calls tools as gold does not, where the answer is handed in by calls.
    """

    task: Task
    kind: str
    script: Script
    variant: int = 0
    calls_otherwise: bool = False

    @property
    def rollout_id(self) -> str:
        """The id of its rollout."""
        return f"audit/{self.kind}/{self.variant}/{self.task.id}"


def attempts_of(known: Sequence[Known], attacked: Sequence[Known]) -> list[Attempt]:
    """Return the gold and the attacks of each task, those in `attacked` by all kinds."""
    found: list[Attempt] = []
    all_kinds = {each.task.id for each in attacked}
    for each in known:
        found += [Attempt(each.task, "gold", each.gold)] if each.gold is not None else []
        for kind, scripts in attempts_at(each, all_kinds=each.task.id in all_kinds).items():
            found += [
                Attempt(each.task, kind, script, variant, each.calls_otherwise(script))
                for variant, script in enumerate(scripts)
            ]
    return found


@dataclass(slots=True)
class Stage:
    """Plays and scores attempts; what it was told, what it has scored, and how long that took.

    `stopped` says that nothing more can be scored.
    """

    environment: BaseEnv
    harness: HarnessConfig
    reward: RewardConfig
    findings: Findings
    progress: Progress
    rows: list[tuple[Attempt, Reward]] = field(default_factory=list)
    weights: dict[str, float] = field(default_factory=dict)
    scripts: Mapping[str, Script] = field(default_factory=dict)  # {task id: its gold}
    golds: dict[str, Rollout] = field(default_factory=dict)  # {task id: the gold as it was played}
    tool_faults: dict[str, list[Failure]] = field(default_factory=dict)  # {rollout id: what tools raised, and where}
    seconds: float = 0.0
    stopped: bool = False

    @property
    def other_calls(self) -> set[str]:
        """The ids of the rollouts that call tools as gold does not, where the answer is handed in by calls."""
        return {attempt.rollout_id for attempt, _ in self.rows if attempt.calls_otherwise}

    def play(self, attempts: Sequence[Attempt]) -> None:
        """Play and score attempts. What stops this is a finding; raises ConfigError for a weight of no part."""
        began = time.perf_counter()
        parts = [Part(each.rollout_id, each.task, each.script) for each in attempts]
        try:
            rollouts = play_scripts(
                parts, self.environment, self.harness, tool_faults=self.tool_faults, progress=self.progress
            )
            self.golds |= {
                each.task.id: rollout
                for each, rollout in zip(attempts, rollouts, strict=True)
                if each.kind == "gold" and rollout.error is None
            }
            rewards = self._score(rollouts, {each.task.id: each.task for each in attempts})
        except ConfigError:
            raise
        except RlftError as error:
            self.findings.fail(Problem(error.where, f"scoring stopped: {error.what}", error.fix))
            self.stopped = True
        except Exception as error:  # `context` is the environment's code as well
            self.findings.fail(Problem("context", f"the attempts could not be put together: {described(error)}"))
            self.stopped = True
        else:
            self.rows += zip(attempts, rewards, strict=True)
            self.weights |= rewards.weights
        self.seconds += time.perf_counter() - began

    def play_apart(self, attempts: Sequence[Attempt]) -> list[Reward]:
        """Play and score attempts that are no rows of the report, and return their rewards; none where it stops."""
        begins = len(self.rows)
        if attempts:
            self.play(attempts)
        rewards = [reward for _, reward in self.rows[begins:]]
        del self.rows[begins:]
        return rewards

    def _score(self, rollouts: Sequence[Rollout], tasks: Mapping[str, Task]) -> Rewards:
        """Score rollouts as training does; a reward that compares sees each beside the gold of its task alone."""
        rows = Rollouts(tuple(rollouts))
        peers = {each.rollout_id: self._peers(each) for each in rollouts} if compares(self.environment) else None
        return score_rollouts(rows, tasks, self.environment, self.reward, progress=self.progress, peers=peers)

    def _peers(self, rollout: Rollout) -> tuple[Rollout, ...]:
        gold = self.golds.get(rollout.task_id)
        return (rollout,) if gold is None or gold.rollout_id == rollout.rollout_id else (gold, rollout)


def play_all(known: Sequence[Known], stage: Stage, seconds: float) -> int:
    """Play what the time allows, and return how many tasks were attacked by all kinds.

    The first task is played before the others, to learn what an attempt takes.
    """
    if not known:
        return 0
    attacked = list(known[:: math.ceil(len(known) / ATTACKED)])
    first = attempts_of(known[:1], attacked[:1])
    stage.play(first)
    if stage.stopped:
        return 1
    rest = attempts_of(known[1:], attacked[1:])
    expected = len(rest) * stage.seconds / max(len(first), 1)
    if expected > (left := max(0.0, seconds - stage.seconds)):
        share = left / expected
        attacked = [attacked[0], *_spread(attacked[1:], share)]
        kept = {each.task.id for each in (*_spread(known[1:], share), *attacked[1:])}
        rest = attempts_of([each for each in known[1:] if each.task.id in kept], attacked[1:])
    if rest:
        stage.play(rest)
    return len(attacked)


def _spread(known: Sequence[Known], share: float) -> list[Known]:
    """Return an evenly spread share of some tasks."""
    falls = (math.floor((place + 1) * share) > math.floor(place * share) for place in range(len(known)))
    return [each for each, is_in in zip(known, falls, strict=True) if is_in]


ATTACKS = "attacks"
"""The method by which an environment names attacks."""
_WAYS_OUT = {
    GOLD: "return text, the assistant's messages in order, or None",
    ATTACKS: "return {name: text or messages}",
}


def ask_golds(tasks: Sequence[Task], environment: BaseEnv, findings: Findings) -> dict[str, Script]:
    """Return {task id: gold completion} for the tasks that have one; an error of `gold_completion` is a finding."""

    def gold(task: Task) -> Script | None:
        said = environment.gold_completion(task)
        return None if said is None else as_script(said)

    found = _ask(GOLD, gold, tasks, findings)
    return {task_id: script for task_id, script in found.items() if script is not None}


def ask_attacks(
    tasks: Sequence[Task], environment: BaseEnv, taken: Collection[str], findings: Findings
) -> dict[str, Mapping[str, Script]]:
    """Return {task id: {name: attempt}} of what `attacks` names; errors and names that are `taken` are findings."""

    def own(task: Task) -> Mapping[str, Script]:
        said: Any = environment.attacks(task)
        if both := sorted({*taken, GOLD_KIND} & set(said)):
            raise ValueError(f"{both[0]!r} is the name of another kind of attempt; give the attack its own")
        return {str(name): as_script(attempt) for name, attempt in said.items()}

    return _ask(ATTACKS, own, tasks, findings)


def _ask(where: str, method: Callable[[Task], Any], tasks: Sequence[Task], findings: Findings) -> dict[str, Any]:
    """Return what a method of the environment says to each task; its errors fail the audit, one sentence a kind."""
    found: dict[str, Any] = {}
    errors: dict[tuple[str, ...], list[tuple[Task, Failure]]] = {}  # by kind of failure
    for task in tasks:
        try:
            found[task.id] = method(task)
        except Exception as error:
            failure = failure_of(where, error, task)
            errors.setdefault(failure.kind, []).append((task, failure))
    for failed in errors.values():
        task, error = failed[0]
        what = f"{where} failed on {len(failed)} of {len(tasks)} tasks, for example {task.id}: {error.why}"
        fix = "mend this line; it must work for every task" if error.place else _WAYS_OUT[where]
        findings.fail(Problem(where, what, fix))
    return found
