"""A second policy in memory with the same weights: one is trained while the other samples."""

from __future__ import annotations

import copy
from typing import Any

from rlft.policy.live import Policy


def twin_of(policy: Policy) -> Policy:
    """Return a policy with the same weights to be trained, which takes over the optimizer of this one.

    Weights that are not trained, such as those under an adapter, are shared: neither of the two changes them. The given
    policy must not be in use meanwhile; afterwards another thread may sample from it, and nobody may train it any more.
    """
    shared = [weight for weight in policy.model.parameters() if not weight.requires_grad]
    if policy.optimizer is not None:  # its numbers move over, so that they are not twice in memory
        shared += [number for state in policy.optimizer.adamw.state.values() for number in state.values()]
        shared += [
            each for name, each in policy.optimizer.masters.items() if each is not policy.optimizer.parameters[name]
        ]
    memo: dict[int, Any] = {id(each): each for each in shared}
    twin = Policy(
        model=copy.deepcopy(policy.model, memo),
        tokenizer=policy.tokenizer,
        metadata=policy.metadata,
        optimizer=copy.deepcopy(policy.optimizer, memo),
        changes=policy.changes,
    )
    policy.optimizer = None
    return twin
