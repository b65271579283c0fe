"""Trains a policy on one round: takes stored rollouts and rewards, changes the policy, reports every rollout's fate."""

from __future__ import annotations

import time

from rlft.config import TrainingConfig
from rlft.engines.proof import LOGP_LIMIT
from rlft.flops import TRAIN_FLOPS, shape_of, training_flops
from rlft.outcome import Fate
from rlft.policy import Policy
from rlft.progress import Meter, Progress, silent
from rlft.training.batching import Pair
from rlft.training.ledger import TrainingPlan, plan_training
from rlft.training.limits import TrainingStopped
from rlft.training.update import Updater
from rlft.training.world import ALONE, World
from rlft.types import Rewards, Rollouts, TrainReport

# The engine's limit is measured on canaries of random tokens. Rollouts are of a task's tokens, whose log-probabilities
# may be rounded otherwise, so they are allowed this multiple of it.
_DRIFT = 3.0


def train_round(
    policy: Policy,
    rollouts: Rollouts,
    rewards: Rewards,
    settings: TrainingConfig,
    *,
    round: int,
    temperature: float,
    max_completion_length: int,
    reference: Policy | None = None,
    progress: Progress = silent,
    world: World = ALONE,
    age: int = 0,
) -> TrainReport:
    """Change `policy` in place by `settings.updates_per_round` optimizer steps, `settings.num_iterations` times over.

    `temperature` and `max_completion_length` (tokens) are those of the sampling. Groups without variance are counted
    in the means of the loss alone; with `beta` above 0 they are trained on for their KL, and without a `reference` the
    base weights with the adapter off are that. Nothing is random: there is no dropout and no shuffling. All trainers of
    a `world` call this with the same arguments, each with its shard of the policy, and get the same report but for its
    seconds. `age` is how many rounds of training the policy that sampled was behind this one: above 0, the ratios of
    the loss and how far an update moved the policy are taken from the policy before the round.

    When the loss, a gradient, the KL, or the difference to the engine's log-probabilities goes out of bounds, the
    report's `stopped` says so, and the rollouts that were trained on are `filtered:round_undone`. Then `policy` must be
    loaded again from its folder.

    Raises ValueError if a reference is needed, none is given, and the policy has no adapter.
    """
    if settings.beta and reference is None and policy.metadata.kind == "full":
        raise ValueError("beta is not 0 and the policy has no adapter to switch off: give a reference policy")
    started = time.perf_counter()
    plan = _plan(rollouts, rewards, settings)
    updates = (dealt := _deal(plan.groups, settings.updates_per_round)) * settings.num_iterations
    updater = Updater(
        policy,
        settings,
        temperature=temperature,
        max_completion_length=max_completion_length,
        reference=reference,
        max_logp_difference=_logp_limit(rollouts, temperature),
        meter=Meter(progress, sum(len(pairs) for groups in updates for pairs in groups), "rollouts"),
        world=world,
        lagged=age > 0,
    )
    stopped = _update(updater, plan, updates, max(len(dealt), 1), progress)
    return TrainReport(
        round=round,
        metrics=updater.metrics() | {TRAIN_FLOPS: _flops(updater, plan, rollouts, len(dealt))},
        fates=_fates(plan, rollouts, undone=stopped is not None),
        updates=0 if stopped else updater.count,
        seconds=time.perf_counter() - started,
        stopped=stopped,
        age=age,
    )


def _fates(plan: TrainingPlan, rollouts: Rollouts, *, undone: bool) -> dict[str, str]:
    fates = {rollout.rollout_id: plan.fates.get(rollout.rollout_id, Fate("trained")) for rollout in rollouts}
    instead = Fate("filtered", "round_undone")
    return {key: str(instead if undone and fate.kind == "trained" else fate) for key, fate in fates.items()}


def _logp_limit(rollouts: Rollouts, temperature: float) -> float | None:
    """Return which mean difference of log-probabilities rounding may explain; `None` if that is unknown."""
    explained = rollouts.metrics.get(LOGP_LIMIT)  # measured at temperature 1
    return None if explained is None else _DRIFT * explained / min(temperature, 1.0)


def _plan(rollouts: Rollouts, rewards: Rewards, settings: TrainingConfig) -> TrainingPlan:
    return plan_training(
        rollouts,
        rewards,
        scale=settings.scale_rewards,
        mask_truncated_completions=settings.mask_truncated_completions,
        baseline=settings.advantage,
        with_kl=settings.beta > 0,
        replaced=settings.max_num_gen_batches > 1,
    )


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


def _flops(updater: Updater, plan: TrainingPlan, rollouts: Rollouts, updates: int) -> float:
    """Return what the round cost; reading for `remember` and for the reference are passes without gradients."""
    settings = updater.settings
    iterations = settings.num_iterations
    remembered = updater.old.must_remember(plan.groups, updates * iterations)
    return training_flops(
        shape_of(updater.policy.model),
        rollouts,
        {rollout.rollout_id for group in plan.groups for rollout, _ in group},
        updates=updates,
        iterations=iterations,
        shares_prompts=updater.policy.shares_prompts,
        readings=remembered + iterations * bool(settings.beta),
    )


def _deal(groups: list[list[Pair]], updates: int) -> list[list[list[Pair]]]:
    """Deal the rollouts of every group out to the updates in turn, so that each update sees all of the round's tasks.

    Where a group has fewer rollouts than there are updates, the next group goes on where it ended. Fewer rollouts than
    updates make fewer updates.
    """
    count = min(updates, sum(map(len, groups)))
    dealt: list[list[list[Pair]]] = [[] for _ in range(count)]
    first = 0
    for group in groups:
        for number, part in enumerate(dealt):
            if mine := group[(number - first) % count :: count]:
                part.append(mine)
        first = (first + len(group)) % count
    return dealt
