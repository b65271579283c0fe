"""Why a reward that has risen stands still, if there is more to gain."""

from __future__ import annotations

from statistics import fmean, median

from rlft.diagnosis.data import EASY, SAME_REWARD, contradictions
from rlft.diagnosis.evidence import largest_rise, passes, rises
from rlft.diagnosis.finding import Finding
from rlft.diagnosis.history import History
from rlft.diagnosis.learning import COLLAPSED, LARGE, LEAST_ENTROPY, lowered

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
            lowered(history, median(later)),
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
