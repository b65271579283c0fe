"""Causes in how the policy is trained on what was sampled, and why a reward that has risen stands still."""

from __future__ import annotations

from statistics import fmean, median

from rlft.evaluation.diagnosis.data import EASY, SAME_REWARD, contradictions
from rlft.evaluation.diagnosis.history import Finding, History, drifts, falls, largest_rise, passes, rises

MISMATCH = 0.05  # nats per token between engine and trainer; bfloat16 alone makes about 0.01
CLIPPED = 0.3  # of the ratios
COLLAPSED = 0.15  # of the entropy that there was in the first third
LEAST_ENTROPY = 0.05  # nats per token: below it there is next to nothing to explore
EXPLODED = 2.0  # times the entropy that there was
LARGE = 0.1  # nats per token in one update; those that taught had 0.07 at most, those that destroyed 0.31 (docs/LOG.md)
FIRST = 10  # one of so many rounds is one of the first
MOVED = 0.02  # of the range of a reward: by how much it can have changed at most
LENGTHENED = 2.0
USUAL = "1e-5 to 1e-4 is usual for LoRA, and 1e-6 to 1e-5 for all weights of a pretrained model"


def engine_mismatch(history: History) -> Finding | None:
    """An engine that samples from another policy than the one that is trained."""
    if any(report.age for report in history.rounds):
        return None  # an earlier policy samples by design (training.lag), and differs by what was learnt since
    found = history.curve("sampling/sampling_logp_difference/mean")
    difference = median(found) if found else 0.0  # one round with outliers is no engine that samples something else
    if difference < MISMATCH:
        return None
    return Finding(
        "engine and trainer disagree",
        f"The log-probabilities of engine and trainer differ by {difference:.3f} nats per token in the median round, "
        "before any update, so that what is trained is not what was sampled.",
        "Set the same dtype for both (policy.dtype, rollout.vllm), without quantisation, and look whether the engine "
        "cuts the distribution (rollout.top_p, top_k).",
    )


def too_large_steps(history: History) -> Finding | None:
    """Updates that move the policy too far, up to rounds that were undone."""
    moves = history.curve("kl_update")
    reason = history.rounds[-1].stopped if history.rounds else None
    if reason:
        what = f"Training was stopped in round {history.rounds[-1].round}: {reason}."
    elif moves and median(moves) > LARGE:
        what = (
            f"An update moves the policy by {median(moves):.2g} nats per token in the median round (kl_update); those "
            f"that teach stay below {LARGE:g}."
        )
    else:
        return None
    return Finding(
        "learning rate too high",
        what,
        f"{lowered(history)} Or bound the updates (training.max_grad_norm, warmup_updates).",
    )


def lowered(history: History) -> str:
    """Return the advice to lower the learning rate."""
    return f"Lower training.learning_rate (it is {history.learning_rate:g}) to a third."


def too_large_first_steps(history: History) -> Finding | None:
    """First updates that move the policy too far, while the median one does not.

    Adam divides a gradient by its own size: before it has averages, each weight moves by the whole learning rate.
    """
    moves = history.curve("kl_update")
    first = moves[: max(1, len(moves) // FIRST)]
    if not moves or history.rounds[-1].stopped or median(moves) > LARGE or max(first) <= LARGE:
        return None
    return Finding(
        "first updates too large",
        f"Round {moves.index(max(first))} moved the policy by {max(first):.2g} nats per token, and the median round by "
        f"{median(moves):.2g} (kl_update); those that teach stay below {LARGE:g}. What the first updates unlearn may "
        "never come back.",
        f"{lowered(history)} Or let it rise over the first updates (training.warmup_updates: 10).",
    )


def collapsed_entropy(history: History) -> Finding | None:
    """A policy that says one thing alone before it has found what pays."""
    change = history.change("entropy")
    if change is None or change[1] > LEAST_ENTROPY or change[1] > COLLAPSED * change[0]:
        return None
    if not falls(history.curve("entropy"), history.level):
        return None
    return Finding(
        "entropy collapse",
        f"The entropy has fallen from {change[0]:.3f} to {change[1]:.3f} nats per token: the policy hardly tries "
        "anything else any more.",
        "Raise training.epsilon_high (0.28, as in DAPO) or training.beta, lower training.learning_rate, and look "
        "whether a part of the reward pays for what is always the same.",
    )


def exploded_entropy(history: History) -> Finding | None:
    """A policy that has become noise."""
    change = history.change("entropy")
    if change is None or change[1] < EXPLODED * change[0] or change[1] - change[0] < 0.5:
        return None
    if not rises(history.curve("entropy"), history.level):
        return None
    return Finding(
        "entropy explosion",
        f"The entropy has risen from {change[0]:.2f} to {change[1]:.2f} nats per token: the policy unlearns what it "
        "could say.",
        f"Lower training.learning_rate (it is {history.learning_rate:g}), or hold the policy near its start "
        "(training.beta: 0.01).",
    )


def clipping(history: History) -> Finding | None:
    """Ratios that are clipped, so that their tokens have no gradient."""
    share = history.mean("clip_ratio/region_mean")
    if share is None or not history.passed("clip_ratio/region_mean", CLIPPED):
        return None
    return Finding(
        "clipped ratios",
        f"{share:.0%} of the importance ratios are clipped, and what is clipped is not trained on.",
        "Make fewer updates from one round (training.updates_per_round, num_iterations), or lower "
        f"training.learning_rate (it is {history.learning_rate:g}).",
    )


def too_small_steps(history: History) -> Finding | None:
    """Updates that hardly move the policy."""
    moves, length = history.curve("kl_update"), history.mean("completions/mean_length")
    # KL grows with the square of a step: n equal steps in one direction come to n^2 times the KL of one.
    moved = sum(max(each, 0.0) ** 0.5 for each in moves) ** 2
    # Pinsker's inequality: a mean of scores within a range changes by at most sqrt(KL / 2) of it, with the KL of whole
    # completions. So no run that has risen by more than this can be accused.
    if len(moves) < 3 or length is None or (gained := (max(length, 1.0) * moved / 2) ** 0.5) > MOVED:
        return None
    return Finding(
        "learning rate too low",
        f"The {len(moves)} rounds have moved the policy by at most {moved:.1e} nats per token (kl_update), so that the "
        f"share of solved attempts cannot have changed by more than {100 * gained:.2g} points.",
        f"Raise training.learning_rate (it is {history.learning_rate:g}): {USUAL}.",
    )


def length_drift(history: History) -> Finding | None:
    """Completions that grow or shrink, where the reward does not rise by it."""
    change = history.change("completions/mean_length")
    if change is None or not change[0] or 1 / LENGTHENED < change[1] / change[0] < LENGTHENED:
        return None
    if not drifts(history.curve("completions/mean_length"), history.level):
        return None
    grown = "grown" if change[1] > change[0] else "shrunk"
    return Finding(
        "length drift",
        f"The completions have {grown} from {change[0]:.0f} to {change[1]:.0f} tokens, and validation has not risen "
        "by it.",
        "Look whether a part of the reward pays for length, and take training.loss_type: dr_grpo, which has no bias "
        "by it.",
    )


GAINED = 0.05  # of the reward: what stands still has risen by this before
# Of what was gained by then: the later half of the rounds has risen by less. A steady rise has two thirds: half of the
# whole rise is in the later half, and three quarters lie before the middle of that.
STILL = 0.5
LEAST = 16  # rounds: healthy runs of the benchmark have paused for eight
RUN_OUT = 0.25  # of the highest learning rate, in the last third
HELD = 0.5  # of the gain at which the penalty on the KL is as strong as the reward


def standing_still(history: History) -> Finding | None:
    """A reward that rose, and then rose no more for half of the rounds."""
    curve, solved = history.curve("reward"), history.change("accuracy")
    later = curve[len(curve) // 2 :]
    if len(later) < LEAST or not rises(curve):
        return None
    gained, level = fmean(later) - fmean(curve[: max(1, len(curve) // 8)]), fmean(later)
    if gained < GAINED or largest_rise(later) > STILL * gained:
        return None
    if solved is None or solved[1] >= EASY:
        return None  # there is nothing left to gain, or nobody can tell
    rose = (
        f"The reward rose from {level - gained:.2f} to {level:.2f} and has stood still for the last {len(later)} of "
        f"{len(curve)} rounds, with {solved[1]:.1%} of the attempts solved"
    )
    cause, why, remedy = _reason(history, gained)
    return Finding(cause, f"{rose}: {why}.", remedy)


def _reason(history: History, gained: float) -> tuple[str, str, str]:
    """Return the cause, what is seen of it, and the remedy: what stops any policy before what stops this one."""
    return (
        _contradictory(history)
        or _same_rewards(history)
        or _held(history, gained)
        or _run_out(history)
        or _movement(history)
    )


def _contradictory(history: History) -> tuple[str, str, str] | None:
    if (found := contradictions(history)) is None:
        return None
    return found.cause, found.what[0].lower() + found.what[1:].rstrip("."), found.remedy


def _same_rewards(history: History) -> tuple[str, str, str] | None:
    same, third = history.change("frac_reward_zero_std"), len(history.rounds) // 3
    if same is None or not passes(same[1], SAME_REWARD, history.groups(third)):
        return None
    return (
        "nothing left to compare",
        f"in {same[1]:.0%} of the groups of the last third all attempts earn the same, so that each task is either "
        "solved always or never",
        "Read the attempts at tasks that are never solved (`rlft show RUN ROUND`): their answers may be wrong or out "
        "of reach. Take tasks in between, a reward with parts that can be reached, or more attempts "
        "(training.num_generations).",
    )


def _held(history: History, gained: float) -> tuple[str, str, str] | None:
    """Say so if the reward has gained a good part of what the penalty on the KL allows it.

    The gradient of the penalty is that of KL(reference || policy), as the samples are held fixed. For attempts that are
    right or wrong, right with chance p now and q before, it is (p - q) / (p (1 - p)) by p. The reward pulls by 1 / d,
    where d is what advantages are divided by. So both are in balance at p - q = p (1 - p) / (beta d), and p (1 - p) is
    the variance of the reward within a group. With `scale_rewards: group` that is the standard deviation over beta.
    """
    spread = history.change("reward_std")
    if not history.beta or spread is None or spread[1] <= 0:
        return None
    divided_by = 1.0 if history.scale_rewards == "none" else spread[1]
    allowed = spread[1] ** 2 / (history.beta * divided_by)
    if gained < HELD * allowed:
        return None
    return (
        "held by the KL penalty",
        f"with training.beta {history.beta:g} and rewards that differ by {spread[1]:.2f} within groups, the pull to "
        f"the reference is as strong as that of the reward at a gain of about {allowed:.2f}",
        "Lower training.beta to a tenth, or set it to 0.",
    )


def _run_out(history: History) -> tuple[str, str, str] | None:
    rates = history.curve("learning_rate")
    third = len(rates) // 3
    if not third or fmean(rates[-third:]) > RUN_OUT * max(rates):
        return None
    return (
        "learning rate has run out",
        f"the learning rate has fallen from {max(rates):.1e} to {rates[-1]:.1e}",
        "Take more rounds over which it falls (training.rounds), or training.lr_scheduler_type: constant.",
    )


def _movement(history: History) -> tuple[str, str, str]:
    moves, entropy = history.curve("kl_update"), history.change("entropy")
    later = moves[len(moves) // 2 :]
    if later and median(later) > LARGE:
        return (
            "learning rate too high",
            f"an update moves the policy by {median(later):.2g} nats per token in the median round (kl_update)",
            lowered(history),
        )
    if entropy is not None and entropy[1] < LEAST_ENTROPY and entropy[1] < COLLAPSED * entropy[0]:
        return (
            "entropy collapse",
            f"the entropy has fallen from {entropy[0]:.3f} to {entropy[1]:.3f} nats per token, so that it tries "
            "nothing else any more",
            "Raise training.epsilon_high (0.28, as in DAPO) or rollout.temperature, or set training.beta.",
        )
    moved = f"the policy still moves ({median(later):.1e} nats per token a round), and " if later else ""
    return (
        "standstill",
        f"{moved}attempts at a task still differ in reward, so what it is rewarded for may be chance, or beyond what "
        "the model can tell",
        "Read attempts that differ in reward (`rlft show RUN ROUND`): score the best ones again to see whether the "
        "reward repeats. Then try a larger policy.lora.rank or model, a third of training.learning_rate, or more "
        "tasks a round (training.tasks_per_round).",
    )
