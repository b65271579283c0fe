"""A policy in memory, the metadata that it has in memory and on disk, and a copy of it to train while it samples."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch
from torch.distributed.device_mesh import DeviceMesh
from transformers import PreTrainedTokenizerBase

from rlft.config.rollout import Sharding
from rlft.models.attention.interface import shares_prompts
from rlft.models.fused import Replacement, find_fusible
from rlft.models.head import SplitModel, split_model
from rlft.models.optimizer import Optimizer
from rlft.models.sharding import Sharded, shard


@dataclass(frozen=True, slots=True)
class PolicyMetadata:
    """Holds what `policy.json` says.

    `base_model`, `base_revision` and `base_hash` (of its weights) say which model the policy was made from; all are
    `None` for one from scratch. `dtype` is the weights' type, such as `bfloat16`. `update` counts optimizer steps since
    the optimizer was new. `parent` and `stage` say which policy it was trained from, and by which stage of a run.
    `weights_hash` identifies the weights alone, `content_hash` also the optimizer state, the tokenizer, the settings of
    model and adapter and the base under it: all that a later result depends on.
    """

    kind: Literal["full", "adapter"]
    base_model: str | None
    base_revision: str | None
    base_hash: str | None
    dtype: str
    round: int = 0
    update: int = 0
    parent: str | None = None
    stage: str = "base"
    weights_hash: str = ""
    content_hash: str = ""


def holds_reference(policy: PolicyMetadata, reference: PolicyMetadata) -> bool:
    """Return whether a policy with its adapter switched off is the reference, so that this needs no copy of its own.

    It is the base model then, and that is the reference only if training starts from it.
    """
    return policy.kind == "adapter" and reference.stage == "base"


@dataclass
class Policy:
    """Holds a live policy: model, tokenizer and, once it is trained, its optimizer. The trainer changes it in place.

    Code that changes the weights must call `note_change`, so that `identity` changes with them; `changes` counts that.
    """

    model: Any
    tokenizer: PreTrainedTokenizerBase
    metadata: PolicyMetadata
    optimizer: Optimizer | None = None
    changes: int = 0
    sharded: Sharded | None = None

    @property
    def device(self) -> torch.device:
        """The device that the model's parameters are on."""
        return next(self.model.parameters()).device

    @property
    def context_length(self) -> int | None:
        """The most tokens that the model can read at once; `None` where its config does not say."""
        return getattr(self.model.config, "max_position_embeddings", None)

    @cached_property
    def split(self) -> SplitModel:
        """The model as backbone and head, taken apart at the first use."""
        return split_model(self.model)

    @cached_property
    def shares_prompts(self) -> bool:
        """Whether the model can encode common beginnings once, tried out at the first use."""
        return shares_prompts(self.model)

    @cached_property
    def fusible(self) -> list[Replacement]:
        """The operations that `rlft.models.fused` can compute faster, tried out at the first use."""
        return find_fusible(self.model)

    def find_out(self) -> None:
        """Compute `split`, `shares_prompts` and `fusible` now: each runs the model, which must be unchanged for that.

        Otherwise their first use might be inside `fused` or `attending`, which replace parts of the model.
        """
        _ = self.split, self.shares_prompts, self.fusible

    def shard(self, mesh: DeviceMesh, sharding: Sharding = "full_shard") -> None:
        """Shard the weights among the workers of `mesh`, each of which has this policy and calls this.

        The optimizer must be made afterwards. From then on only training reads the model.
        """
        assert self.optimizer is None, "an optimizer of whole weights would go on with these"
        self.find_out()
        self.sharded = shard(self.model, mesh, sharding)

    @property
    def identity(self) -> str:
        """The label of rollouts: the weights' hash, or the number of changes if they were not saved since."""
        return self.metadata.weights_hash or f"unsaved after {self.changes} updates"

    def note_change(self, *, update: int) -> None:
        """Note that the weights have changed, which voids their hashes, after `update` steps of the optimizer."""
        self.metadata = dataclasses.replace(self.metadata, update=update, weights_hash="", content_hash="")
        self.changes += 1

    def trainable(self) -> dict[str, torch.nn.Parameter]:
        """Return the parameters that training changes, by name."""
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    def stop_token_ids(self) -> tuple[int, ...]:
        """Return the tokens that end a completion: the generation config's, else the tokenizer's end token, if any."""
        configured: Any = self.model.generation_config.eos_token_id
        if configured is None:
            configured = self.tokenizer.eos_token_id
        if configured is None:
            return ()
        return tuple(configured) if isinstance(configured, list) else (int(configured),)


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
