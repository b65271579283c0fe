"""Trains a policy on one round: takes stored rollouts and rewards, changes the policy, reports every rollout's fate."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor

from rlft.config.section import Section
from rlft.config.training import TrainingConfig
from rlft.engines.base import LOGP_LIMIT
from rlft.models.flops import TRAIN_FLOPS, shape_of, training_flops
from rlft.models.fused import fused
from rlft.models.live import Policy
from rlft.models.optimizer import Optimizer
from rlft.models.sharding import of_one_update
from rlft.outcome import Fate
from rlft.progress import Meter, Progress, silent
from rlft.training.algorithms import chosen_algorithm
from rlft.training.batching import ALONE, Batch, Pair, World
from rlft.training.ledger import TrainingPlan
from rlft.training.logprobs import (
    OldLogprobs,
    Reading,
    differentiating,
    make_batch,
    shortest,
    split_groups,
    token_logprobs,
)
from rlft.training.loss import Part, Whole
from rlft.training.tally import Limits, Tally, TrainingStopped
from rlft.types import Rewards, Rollouts, TrainReport


class Round(Section):
    """Says which round a policy is trained on, and how its attempts were sampled.

    `max_completion_length` is in tokens, and `age` is how many rounds of training the policy that sampled them was
    behind the one that is trained.
    """

    number: int
    temperature: float
    max_completion_length: int
    age: int = 0


def prepare_optimizer(policy: Policy, settings: TrainingConfig, load: Callable[[Policy], None] | None) -> None:
    """Give the policy an AdamW optimizer if it has none; `load` then gives that its stored state, if there is some.

    Without stored state the optimizer is new, and `metadata.update` counts from 0 again.
    """
    if policy.optimizer is None:
        policy.optimizer = Optimizer(
            policy.trainable(),
            betas=(settings.adam_beta1, settings.adam_beta2),
            weight_decay=settings.weight_decay,
        )
        if load is not None:
            load(policy)
        if not policy.optimizer.state:
            policy.metadata = dataclasses.replace(policy.metadata, update=0)


def learning_rate(settings: TrainingConfig, update: int) -> float:
    """Return the learning rate of the update after `update` others: a linear warm-up, then as `lr_scheduler_type` says.

    It depends on nothing else, so a run that goes on from a stored policy goes on with its rate. The schedule ends
    after as many updates as all rounds can have; with rounds that have nothing to train on it does not reach its end.
    """
    warmup = settings.warmup_updates
    if update < warmup:
        return settings.learning_rate * ((update + 1) / warmup)
    updates = settings.rounds * settings.updates_per_round * settings.num_iterations
    progress = min(1.0, (update - warmup) / max(updates - warmup, 1))
    factors = {"constant": 1.0, "linear": 1 - progress, "cosine": (1 + math.cos(math.pi * progress)) / 2}
    return settings.learning_rate * factors[settings.lr_scheduler_type]


# The engine's limit is measured on canaries of random tokens. Rollouts are of a task's tokens, whose log-probabilities
# may be rounded otherwise, so they are allowed this multiple of it.
_DRIFT = 3.0


def train_round(
    policy: Policy,
    rollouts: Rollouts,
    rewards: Rewards,
    settings: TrainingConfig,
    round: Round,
    *,
    reference: Policy | None = None,
    progress: Progress = silent,
    world: World = ALONE,
) -> TrainReport:
    """Change `policy` in place by `settings.updates_per_round` optimizer steps, `settings.num_iterations` times over.

    Without a `reference` the base weights with the adapter off are that. Nothing is random. All trainers of a `world`
    call this with the same arguments, each with its shard of the policy, and get the same report but for its seconds.
    With an age above 0 ratios and moves are taken from the policy before the round.

    When the loss, a gradient, the KL, or the difference to the engine's log-probabilities goes out of bounds, the
    report's `stopped` says so, and the rollouts that were trained on are `filtered:round_undone`. Then `policy` must be
    loaded again from its folder.

    Raises ValueError if a reference is needed, none is given, and the policy has no adapter.
    """
    if settings.beta and reference is None and policy.metadata.kind == "full":
        raise ValueError("beta is not 0 and the policy has no adapter to switch off: give a reference policy")
    started = time.perf_counter()
    algorithm = chosen_algorithm(settings)
    plan = algorithm.plan(rollouts, rewards, settings, policy, round.number)
    dealt = _deal(plan.groups, settings.updates_per_round, whole=algorithm.whole_groups)
    updates = dealt * settings.num_iterations
    updater = Updater(
        policy,
        settings,
        temperature=round.temperature,
        max_completion_length=round.max_completion_length,
        reference=reference,
        max_logp_difference=_logp_limit(rollouts, round.temperature),
        meter=Meter(progress, sum(len(pairs) for groups in updates for pairs in groups), "rollouts"),
        world=world,
        lagged=round.age > 0 or not all(rollout.policy for group in plan.groups for rollout, _ in group),
    )
    stopped = _update(updater, plan, updates, max(len(dealt), 1), progress)
    return TrainReport(
        round=round.number,
        metrics=updater.metrics() | {TRAIN_FLOPS: _flops(updater, plan, len(dealt))},
        fates=_fates(plan, rollouts, undone=stopped is not None),
        updates=0 if stopped else updater.count,
        seconds=time.perf_counter() - started,
        stopped=stopped,
        age=round.age,
    )


def _fates(plan: TrainingPlan, rollouts: Rollouts, *, undone: bool) -> dict[str, str]:
    fates = {rollout.rollout_id: plan.fates.get(rollout.rollout_id, Fate("trained")) for rollout in rollouts}
    instead = Fate("filtered", "round_undone")
    return {key: str(instead if undone and fate.kind == "trained" else fate) for key, fate in fates.items()}


def _logp_limit(rollouts: Rollouts, temperature: float) -> float | None:
    """Return which mean difference of log-probabilities rounding may explain; `None` if that is unknown."""
    explained = rollouts.metrics.get(LOGP_LIMIT)  # measured at temperature 1
    return None if explained is None else _DRIFT * explained / min(temperature, 1.0)


def _update(
    updater: Updater, plan: TrainingPlan, updates: list[list[list[Pair]]], share: int, progress: Progress
) -> str | None:
    """Take the steps, each with its share of the round's silent rollouts; return why one of them was refused, if so."""
    silent = {"silent_rollouts": plan.silent_rollouts / share, "silent_tokens": plan.silent_tokens / share}
    try:
        if updater.old.must_remember(plan.groups, len(updates)):
            updater.old.remember(plan.groups, updates, progress)
        for groups in updates:
            updater.step(groups, **silent)
    except TrainingStopped as reason:
        return str(reason)
    return None


def _flops(updater: Updater, plan: TrainingPlan, updates: int) -> float:
    """Return what the round cost; reading for `remember` and for the reference are passes without gradients."""
    settings = updater.settings
    iterations = settings.num_iterations
    remembered = updater.old.must_remember(plan.groups, updates * iterations)
    trained = [rollout for group in plan.groups for rollout, _ in group]
    return training_flops(
        shape_of(updater.policy.model),
        trained,
        updates=updates,
        iterations=iterations,
        shares_prompts=updater.policy.shares_prompts,
        readings=remembered + iterations * bool(settings.beta),
    )


def _deal(groups: list[list[Pair]], updates: int, *, whole: bool = False) -> list[list[list[Pair]]]:
    """Deal the rollouts of every group out to the updates in turn, so that each update sees all of the round's tasks.

    Where a group has fewer rollouts than there are updates, the next group goes on where it ended. Fewer rollouts than
    updates make fewer updates. Groups that are to stay `whole` are dealt out one by one.
    """
    if whole:
        count = min(updates, len(groups))
        return [groups[number::count] for number in range(count)]
    count = min(updates, sum(map(len, groups)))
    dealt: list[list[list[Pair]]] = [[] for _ in range(count)]
    first = 0
    for group in groups:
        for number, part in enumerate(dealt):
            if mine := group[(number - first) % count :: count]:
                part.append(mine)
        first = (first + len(group)) % count
    return dealt


class Updater:
    """Takes the optimizer steps of one round, and tallies what its metrics are made of.

    `max_logp_difference` bounds the mean difference of log-probabilities between sampling and training, in nats; `None`
    means no bound. Of `lagged` rollouts, which the policy of an earlier round has sampled, ratios and the change by an
    update are taken from the policy before this round. `meter` counts the rollouts
    that are encoded here, in every update again. Every trainer of a `world` has an updater of its own, and all call the
    same methods with the same arguments.
    """

    def __init__(
        self,
        policy: Policy,
        settings: TrainingConfig,
        *,
        temperature: float,
        max_completion_length: int,
        reference: Policy | None,
        max_logp_difference: float | None = None,
        meter: Meter | None = None,
        world: World = ALONE,
        lagged: bool = False,
    ) -> None:
        self.policy, self.settings, self.reference = policy, settings, reference
        self.world, self.meter = world, meter or Meter(silent, None, "rollouts")
        self.algorithm = chosen_algorithm(settings)
        self.loss = self.algorithm.loss(settings)
        policy.find_out()  # it runs the model with its own attention, so before `attending` replaces that
        world.check_alike(policy)
        self.temperature, self.max_completion_length = temperature, max_completion_length
        correction = settings.importance_sampling_correction
        self.reading = Reading(policy, world, temperature, settings.per_step_token_budget)
        self.old = OldLogprobs(self.reading, corrected=correction is not None, lagged=lagged)
        self.limits = Limits(
            self.reading,
            self.old,
            max_kl=settings.max_kl,
            max_logp_difference=max_logp_difference,
            meter=self.meter,
        )
        self.tally = Tally(correction, settings.importance_sampling_max, self.algorithm.metrics)
        self.count = 0

    def step(
        self, groups: Sequence[Sequence[Pair]], *, silent_rollouts: float = 0.0, silent_tokens: float = 0.0
    ) -> None:
        """Take one optimizer step over these groups.

        The mean of the loss also counts `silent_rollouts` and `silent_tokens`, which add nothing to its sum.

        Raises TrainingStopped before the weights change if the loss or the gradient's norm is not finite, or if the
        engine sampled with other weights; and afterwards if the policy has moved further than `training.max_kl`.
        """
        policy, settings = self.policy, self.settings
        assert policy.optimizer is not None, "prepare_optimizer first"
        policy.model.eval()  # dropout would make the ratio differ from 1 before anything was learnt
        policy.optimizer.zero_grad()  # an update that was stopped leaves gradients behind
        pairs = [pair for group in groups for pair in group]
        whole = Whole(
            num_items=silent_tokens + sum(int(rollout.loss_mask.sum()) for rollout, _ in pairs),
            num_rollouts=silent_rollouts + len(pairs),
            max_completion_length=self.max_completion_length,
        )
        with policy.optimizer.accumulating():
            own = self.reading.share(groups)
            whole_groups = self.algorithm.whole_groups
            split = split_groups(policy, own, self.reading.budget) if whole_groups else self.reading.parts(own)
            parts = self.world.level(split)
            passes = of_one_update(policy.sharded, parts)
            losses = [self._backward(part, whole) if part else self._pass_idly(groups) for part in passes]
        (loss,) = self.world.total([sum(losses)])
        if self.count == 0:  # later updates have moved away from the sampling policy on purpose
            self.limits.check_sampling(pairs, self.tally.together(self.world).mean_difference)
        norm = policy.optimizer.clip(settings.max_grad_norm)
        self.limits.check_step(loss, norm, self.count + 1)
        rate = learning_rate(settings, policy.metadata.update)
        policy.optimizer.step(rate)
        policy.note_change(update=policy.metadata.update + 1)
        self.count += 1
        self.tally.note_update(policy_loss=loss, grad_norm=norm, learning_rate=rate)
        if (kl := self.limits.change(groups)) is not None:
            self.tally.note_update(kl_update=kl)
            self.limits.check_change(kl, groups, self.count)

    def metrics(self) -> dict[str, float]:
        """Return means over tokens or updates of this round, by the names in docs/guide/training.md."""
        return self.tally.together(self.world).metrics(with_kl=bool(self.settings.beta))

    def _backward(self, pairs: Sequence[Pair], whole: Whole) -> float:
        """Add this part's gradients and return its loss; the losses of the parts add up to that of the batch."""
        batch = make_batch(self.policy, pairs)
        # Before the policy's pass: between that and its backward pass, sharded weights must be left as they are.
        reference = self._reference_logprobs(pairs, batch) if self.settings.beta else None
        with differentiating(self.policy, batch, self.settings.gradient_checkpointing):
            found = token_logprobs(self.policy, batch, self.temperature)
            own = found.logprobs.detach()
            part = Part(
                found.logprobs,
                self.old.of(pairs, batch, own, first=self.count == 0),
                batch.advantages,
                batch.mask,
                ref_logprobs=reference,
                sampling_logprobs=batch.logprobs,
            )
            report = self.loss(part, whole)
            report.loss.backward()
        assert found.entropy is not None
        self.tally.note_read(batch)
        self.tally.note_part(report, found.entropy)
        if self.count == 0 and pairs[0][0].policy:  # a file has recorded no log-probabilities
            self.tally.note_sampling(own, batch, report.importance_sampling_ratio)
        self.meter.add(len(pairs), tokens=sum(int(rollout.loss_mask.sum()) for rollout, _ in pairs))
        return float(report.loss.detach())

    def _pass_idly(self, groups: Sequence[Sequence[Pair]]) -> float:
        """Take part in a pass of the other trainers, without adding to any gradient; return the loss of that, 0."""
        pairs = shortest(groups)
        batch = make_batch(self.policy, pairs)
        if self.settings.beta:
            self._reference_logprobs(pairs, batch)
        with differentiating(self.policy, batch, self.settings.gradient_checkpointing):
            (0.0 * self.reading.logprobs(batch).sum()).backward()
        return 0.0

    def _reference_logprobs(self, pairs: Sequence[Pair], batch: Batch) -> Tensor:
        reader = self.reference or self.policy
        switched_off = nullcontext() if self.reference else self.policy.model.disable_adapter()
        if reader.shares_prompts != self.policy.shares_prompts:
            batch = make_batch(reader, pairs)
        # Fused as the policy is: rounding of one of them alone would be a gradient where the two are equal.
        with torch.no_grad(), switched_off, fused(reader.fusible):
            return token_logprobs(reader, batch, self.temperature, with_entropy=False).logprobs
