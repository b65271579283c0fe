"""Environments whose reward asks a judge, and what a judge says."""

from __future__ import annotations

import json
from typing import Any

from rlft.config import RewardConfig
from rlft.config.environment import PLAIN
from rlft.config.section import SPECIFICATION
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.loading import load_environment
from rlft.rewards.scoring import score_rollouts
from rlft.types import Reward
from tests.rlft.attempts import answered, make_task
from tests.rlft.engines.chat_servers import ChatServer

TASK = make_task("t", "The capital of Peru?", "Lima")
KIND = {"kind": {"says": "It is kind.", "grader": {"type": "judge", "question": "Is it kind to {{item.prompt}}?"}}}


def judged(server: ChatServer, criteria: dict[str, Any] = KIND, **settings: Any) -> BaseEnv:
    """An environment whose judge is this server."""
    return judged_by(server, {"criteria": criteria}, **settings)


def judged_by(server: ChatServer, specification: dict[str, Any], **settings: Any) -> BaseEnv:
    """An environment with this specification, whose judge is this server."""
    spec = {**specification, "judge": {"endpoint": server.url, "model": "small", "attempts": 2, **settings}}
    return load_environment(PLAIN, {SPECIFICATION: json.dumps(spec)})


def scored(environment: BaseEnv, *texts: str, **limits: Any) -> tuple[Reward, ...]:
    """The rewards of attempts at one task."""
    return score_rollouts(
        answered(TASK, *texts), {"t": TASK}, environment, RewardConfig(**{"timeout_seconds": 20, **limits})
    ).rows


def says(**answer: Any) -> str:
    """An answer of a judge."""
    return json.dumps({"why": "so", **answer})
