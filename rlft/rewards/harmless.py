"""Answers that no policy made up, to tell a reward that hangs on anything from one that hangs on some answers."""

from __future__ import annotations

from rlft.contract.base import BaseEnv
from rlft.harness.scripted import Part, Script, as_script, play_scripts
from rlft.types import Rollout, Task

CONSTANT = "I do not know."


def harmless_rollouts(task: Task, environment: BaseEnv) -> list[Rollout]:
    """A sentence that is no answer and, where there is one, the gold completion, played with the environment's tools.

    Both, since a reward may look at a sentence without asking the judge or the sandbox that hangs. Those that could not
    be played are left out. Raises RlftError for an environment that hangs itself.
    """
    scripts = [as_script(CONSTANT), *_gold(task, environment)]
    parts = [Part(f"harmless/{number}/{task.id}", task, script) for number, script in enumerate(scripts)]
    return [rollout for rollout in play_scripts(parts, environment) if rollout.error is None]


def _gold(task: Task, environment: BaseEnv) -> list[Script]:
    try:
        gold = environment.gold_completion(task)
        return [] if gold is None else [as_script(gold)]
    except Exception:  # the audit has said so; the sentence is left
        return []
