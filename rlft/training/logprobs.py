"""Reads rollouts with a policy, in parts that fit into memory, for the log-probabilities of their sampled tokens.

`Reading` is what one trainer reads of an update, and `OldLogprobs` holds those under the policy before the first update
of a round, which ratios are taken to.

Gradient checkpointing (arXiv:1604.06174) is here as it is done in evaluation mode. transformers offers it in training
mode only, whose dropout would make the importance ratio differ from 1 before anything was learnt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from rlft.models.attention.interface import attending
from rlft.models.fused import fused
from rlft.models.head import SelectedLogprobs, selected_logprobs
from rlft.models.live import Policy
from rlft.models.sharding import read_through
from rlft.progress import Meter, Progress, silent
from rlft.training.batching import Batch, Pair, World, pack_tree, packed_tokens, pad_rows, split_by_tokens, split_tree
from rlft.types import Rollout

# Tokens of a part. Larger ones are no faster on a CPU: memory that is freed between them is paged in again.
_CPU_TOKENS, _GPU_TOKENS = 3072, 16384


def split_parts(policy: Policy, groups: Sequence[Sequence[Pair]], budget: int | None = None) -> list[list[Pair]]:
    """Return the rollouts of groups in parts of at most `budget` tokens (`training.per_step_token_budget`)."""
    most = _default_budget(policy, groups) if budget is None else budget
    split = split_tree if policy.shares_prompts else split_by_tokens
    return list(split([pair for group in groups for pair in group], most))


def split_groups(policy: Policy, groups: Sequence[Sequence[Pair]], budget: int | None = None) -> list[list[Pair]]:
    """Return the rollouts of whole groups, in their order, in parts of at most `budget` tokens or of one group."""
    most = _default_budget(policy, groups) if budget is None else budget
    parts: list[list[Pair]] = []
    for group in groups:
        longer = [*(parts[-1] if parts else ()), *group]
        width = max(len(rollout.token_ids) for rollout, _ in longer)
        if parts and (packed_tokens(longer) if policy.shares_prompts else len(longer) * width) <= most:
            parts[-1] = longer
        else:
            parts.append(list(group))
    return parts


def make_batch(policy: Policy, pairs: Sequence[Pair]) -> Batch:
    """Return rollouts as a batch: packed where the policy can read that, or else padded."""
    return (pack_tree if policy.shares_prompts else pad_rows)(pairs, policy.device)


def _default_budget(policy: Policy, groups: Sequence[Sequence[Pair]]) -> int:
    """Return how many tokens a part may have where no setting says so.

    A CPU takes a group whole where a GPU would, as cutting it would encode its prompt again.
    """
    if policy.device.type != "cpu":
        return _GPU_TOKENS
    return min(max(_CPU_TOKENS, *map(packed_tokens, groups), 0), _GPU_TOKENS)


@contextmanager
def differentiating(policy: Policy, batch: Batch, checkpointing: bool) -> Iterator[None]:
    """Have the model read `batch` as training does: forwards and backwards inside the context."""
    packed = attending(policy.model) if batch.attention is not None else nullcontext()
    with packed, gradient_checkpointing(policy.model, checkpointing), fused(policy.fusible):
        yield


def token_logprobs(policy: Policy, batch: Batch, temperature: float, *, with_entropy: bool = True) -> SelectedLogprobs:
    """Return the log-probability of every sampled token given those before it, under softmax(logits / temperature).

    A packed batch that is to be differentiated under gradient checkpointing must be inside
    `rlft.models.attention.interface.attending` until its backward pass is over: layers are then computed again.

    Args:
        policy: The model that reads; a packed batch needs one whose `shares_prompts` is true.
        batch: Packed groups or padded rows.
        temperature: That of the sampling; the distribution sampled from is the one that is trained.
        with_entropy: Whether to compute entropies.

    Returns:
        Float [rollouts, tokens], 0 where no token was sampled: natural log-probabilities with gradient, and entropies
        in nats without.
    """
    split = policy.split  # its first use runs the model with its own attention, so it comes before `attending`
    inputs = {"input_ids": batch.token_ids, "position_ids": batch.positions, "use_cache": False}
    if batch.attention is not None:
        inputs["attention"] = batch.attention
    else:
        inputs["attention_mask"] = batch.attention_mask

    def read() -> tuple[Tensor | None, ...]:
        with attending(policy.model) if batch.attention is not None else nullcontext():
            hidden = split.backbone(**inputs)
        found = selected_logprobs(
            _taken(hidden.flatten(0, 1), batch.sources),
            split.head,
            batch.targets,
            temperature,
            with_entropy=with_entropy,
        )
        return found.logprobs, found.entropy

    logprobs, entropy = read_through(policy.sharded, read)
    assert logprobs is not None
    return SelectedLogprobs(batch.spread(logprobs), None if entropy is None else batch.spread(entropy))


def _taken(hidden: Tensor, places: Tensor) -> Tensor:
    """Return the rows at these places, of which some are there several times, so that gradients are the same each time.

    The threads of a CPU add up the gradient of `hidden[places]` in no order, and those of a GPU that of `index_select`.
    """
    return hidden.index_select(0, places) if hidden.device.type == "cpu" else hidden[places]


@dataclass(frozen=True, slots=True)
class Reading:
    """Which policy one of the trainers of a `world` reads with, at which temperature.

    `budget` is the most tokens of a part (`training.per_step_token_budget`); `None` leaves it to the device.
    """

    policy: Policy
    world: World
    temperature: float
    budget: int | None

    def share(self, groups: Sequence[Sequence[Pair]]) -> list[list[Pair]]:
        """Return those groups of an update that this trainer encodes."""
        return self.world.share(groups, shares_prompts=self.policy.shares_prompts)

    def parts(self, groups: Sequence[Sequence[Pair]]) -> list[list[Pair]]:
        """Return the rollouts of groups in parts of at most `budget` tokens."""
        return split_parts(self.policy, groups, self.budget)

    def logprobs(self, batch: Batch) -> Tensor:
        """Return the log-probabilities of a batch's sampled tokens, [rollouts, tokens]."""
        return token_logprobs(self.policy, batch, self.temperature, with_entropy=False).logprobs


def shortest(groups: Sequence[Sequence[Pair]]) -> list[Pair]:
    """Return the shortest of all rollouts, which is the cheapest to read where a trainer has none of its own left."""
    return [min((pair for group in groups for pair in group), key=lambda pair: len(pair[0].token_ids))]


class OldLogprobs:
    """Notes them where they are needed again, and says which ones a part of an update has.

    `lagged` says that the policy of an earlier round has sampled the rollouts, and `corrected` that a correction weighs
    them by what did. With either the ratio of the loss is that of the policy to itself before the round (decoupled,
    arXiv:2110.00641). Made before the first update.
    """

    def __init__(self, reading: Reading, *, corrected: bool, lagged: bool) -> None:
        self.reading, self.lagged, self.decoupled = reading, lagged, corrected or lagged
        self.identity = reading.policy.identity  # before the first update; fresh rollouts carry it
        self.noted: dict[str, Tensor] = {}  # by rollout id, [tokens]; empty unless `remember` was called, or lagged

    def must_remember(self, groups: Sequence[Sequence[Pair]], updates: int) -> bool:
        """Return whether `remember` is needed before the first update.

        At a first update of fresh rollouts, those that this policy sampled, the log-probabilities of that same pass are
        the old ones, and so they are with a lag or a correction. Otherwise those recorded when the tokens were sampled
        are used, unless there is a lag or a correction, or fresh rollouts are trained on in half precision: there
        rounding in a batch of another shape is enough to move the ratio of a sequence out of its bounds (docs/LOG.md,
        "rounding and clipping in bfloat16").
        """
        half = next(iter(self.reading.policy.model.parameters())).dtype in (torch.float16, torch.bfloat16)
        return updates > 1 and (self.decoupled or (half and self.are_fresh(groups)))

    def remember(
        self,
        groups: Sequence[Sequence[Pair]],
        updates: Sequence[Sequence[Sequence[Pair]]],
        progress: Progress = silent,
    ) -> None:
        """Note the policy's log-probabilities before the first of the `updates`, if they need them (`must_remember`).

        `groups` are those of the round, dealt out to the updates. A trainer reads what it is to encode in one of these.
        """
        reading = self.reading
        own = {rollout.rollout_id for update in updates for group in reading.share(update) for rollout, _ in group}
        mine = ([pair for pair in group if pair[0].rollout_id in own] for group in groups)
        groups, everything = [group for group in mine if group], groups
        meter = Meter(progress, sum(map(len, everything)), "rollouts read")
        # The same operations as in the updates round the same way.
        with torch.no_grad(), fused(reading.policy.fusible):
            for part in reading.world.level(reading.parts(groups)):
                pairs = part or shortest(everything)
                self._note(pairs, reading.logprobs(make_batch(reading.policy, pairs)))
                meter.add(len(pairs))

    def of(self, pairs: Sequence[Pair], batch: Batch, own: Tensor, *, first: bool) -> Tensor:
        """Return log-probabilities [rollouts, tokens] of the policy before the first update.

        At the `first` update these are the part's `own`, so that every ratio is exactly 1 and no second pass is needed:
        for fresh rollouts, and for others with a lag or a correction. Otherwise they are those that were noted, or else
        those recorded at sampling: then the ratio is all that tells other rollouts from the policy's own.
        """
        if first and (self.decoupled or self.are_fresh([pairs])):
            if self.lagged:
                self._note(pairs, own)
            return own
        return self.known(pairs, own) if self.noted else batch.logprobs

    def known(self, pairs: Sequence[Pair], like: Tensor) -> Tensor:
        """Return what was noted of these rollouts, [rollouts, tokens], in the shape of `like`."""
        old = torch.zeros_like(like)
        for row, (rollout, _) in zip(old, pairs, strict=True):
            # The width of a part is that of its longest completion, so it may differ from that in `remember`.
            noted = self.noted[rollout.rollout_id][: len(row)]
            row[: len(noted)] = noted
        return old

    def are_fresh(self, groups: Sequence[Sequence[Pair]]) -> bool:
        """Return whether the policy before the first update has sampled all of the rollouts."""
        return all(self._is_fresh(rollout) for group in groups for rollout, _ in group)

    def _is_fresh(self, rollout: Rollout) -> bool:
        return rollout.policy == self.identity

    def _note(self, pairs: Sequence[Pair], logprobs: Tensor) -> None:
        for (rollout, _), row in zip(pairs, logprobs, strict=True):
            self.noted.setdefault(rollout.rollout_id, row)


@contextmanager
def gradient_checkpointing(model: Any, wanted: bool) -> Iterator[None]:
    """If `wanted`, make the layers keep only their inputs inside the context and compute the rest again going back.

    The backward pass must be inside, too. Raises ValueError for a model without layers that can do so.
    """
    if not wanted:
        yield
        return
    layers: list[Any] = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise ValueError(f"{type(model).__name__} cannot checkpoint; set training.gradient_checkpointing to false")
    for layer in layers:
        layer._gradient_checkpointing_func = _recomputed(layer)
        layer.gradient_checkpointing = layer.training = True  # a layer asks for both before it calls the function
    try:
        yield
    finally:
        for layer in layers:
            layer.gradient_checkpointing = layer.training = False


def _recomputed(layer: GradientCheckpointingLayer) -> Callable[..., Any]:
    """Return a function that computes `layer`, and again for its gradient, both times in evaluation mode.

    Only the flag of the layer itself is true otherwise, but some layers have a dropout of their own that looks at it.
    """

    def run(function: Callable[..., Any], *inputs: Any) -> Any:
        def evaluate(*inputs: Any) -> Any:
            mode, layer.training = layer.training, False
            try:
                return function(*inputs)
            finally:
                layer.training = mode

        return checkpoint(evaluate, *inputs, use_reentrant=False)

    return run
