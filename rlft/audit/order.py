"""Turns the order round in which an environment's rewards are asked; it must not matter."""

from __future__ import annotations

import copy
from functools import partial

from rlft.contract.base import BaseEnv, score_parts
from rlft.contract.marks import marked_weights


def in_reverse(environment: BaseEnv) -> BaseEnv | None:
    """Return an environment whose marked rewards are asked in the opposite order, the last first.

    `None` where there are fewer than two, or where the environment's own `compute_reward` asks them. The totals are
    exactly rounded sums, so that only a reward which changes what another one reads makes a difference.
    """
    names = tuple(marked_weights(environment))
    if type(environment).compute_reward is not BaseEnv.compute_reward or len(names) < 2:
        return None
    turned = copy.copy(environment)
    turned.__dict__["compute_reward"] = partial(score_parts, environment, names[::-1])
    return turned
