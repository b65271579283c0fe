"""Answers that no policy has written, to tell a reward that hangs on every answer from one that hangs on some."""

from __future__ import annotations

from rlft.config import HarnessConfig
from rlft.contract.base import BaseEnv
from rlft.harness.scripted import Part, Script, as_script, play_scripts
from rlft.types import Rollout, Task
from rlft.workers.settings import Isolation

CONSTANT = "I do not know."


def harmless_rollouts(task: Task, environment: BaseEnv, isolation: Isolation) -> list[Rollout]:
    """Play a sentence that is no answer and, if there is one, the gold completion, with the environment's tools.

    Both are needed, since a reward may refuse the sentence without asking the judge or the sandbox that hangs. Rollouts
    that failed are left out. `isolation` says where the environment's code runs. Raises RlftError for an environment
    that hangs itself.
    """
    scripts = [as_script(CONSTANT), *_gold(task, environment)]
    parts = [Part(f"harmless/{number}/{task.id}", task, script) for number, script in enumerate(scripts)]
    return [
        rollout
        for rollout in play_scripts(parts, environment, HarnessConfig(isolation=isolation))
        if rollout.error is None
    ]


def _gold(task: Task, environment: BaseEnv) -> list[Script]:
    try:
        gold = environment.gold_completion(task)
        return [] if gold is None else [as_script(gold)]
    except Exception:  # the audit reports it; here the sentence alone must do
        return []
