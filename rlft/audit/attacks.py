"""Scripts of the gold answer and of wrong answers to a task, which are played without a model."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence

from rlft.harness.scripted import Script, as_script
from rlft.rewards.harmless import CONSTANT
from rlft.types import Task

ATTACKS = ("empty", "echo", "constant", "other_gold", "most_common")
"""The kinds of wrong answers; `audit_reward` says what each is."""
OTHER_ANSWERS = ("other_gold", "most_common")
"""The attacks that are gold answers of other tasks."""


def attack_scripts(
    tasks: Sequence[Task], golds: Mapping[str, Script], picked: Sequence[Task], seed: int
) -> dict[str, dict[str, Script]]:
    """Return {task id: {kind: script}} for the picked tasks; kinds are `gold` and `ATTACKS`.

    `golds` maps ids of `tasks` to gold completions. A script that equals the task's own gold is no attack and left out.
    """
    known = {json.dumps(gold, sort_keys=True): gold for gold in golds.values()}
    counts = Counter(json.dumps(gold, sort_keys=True) for gold in golds.values())
    most_common = known[counts.most_common(1)[0][0]] if golds else None
    return {task.id: _scripts(task, golds, most_common, _other_gold(task, tasks, golds, seed)) for task in picked}


def _scripts(
    task: Task, golds: Mapping[str, Script], most_common: Script | None, other_gold: Script | None
) -> dict[str, Script]:
    gold = golds.get(task.id)
    attacks = {
        "empty": as_script(""),
        "echo": as_script("\n".join(message["content"] for message in task.prompt)),
        "constant": as_script(CONSTANT),
        "other_gold": other_gold,
        "most_common": most_common,
    }
    own = {} if gold is None else {"gold": gold}
    return own | {kind: script for kind, script in attacks.items() if script is not None and script != gold}


def _other_gold(task: Task, tasks: Sequence[Task], golds: Mapping[str, Script], seed: int) -> Script | None:
    """Return the gold of the first task, from a random place on, whose answer and gold differ from this task's."""
    start = random.Random(f"{seed}:{task.id}").randrange(len(tasks))
    for index in range(len(tasks)):
        other = tasks[(start + index) % len(tasks)]
        gold = golds.get(other.id)
        if gold is not None and gold != golds.get(task.id) and (other.answer is None or other.answer != task.answer):
            return gold
    return None
