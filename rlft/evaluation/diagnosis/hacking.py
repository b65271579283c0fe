"""Signs that what is paid is not what is wanted: they are looked for while a run trains.

`overoptimization` and `reward_gap` see that the reward rises and what counts does not: a loophole is learnt, or what is
paid is not what is wanted. Gao, Schulman & Hilton 2023 (Scaling Laws for Reward Model Overoptimization, ICML) call the
two proxy and gold reward. Two patterns count as seen. Either the reward rises and what counts *falls*, both beyond
chance, since before training or since any later validation: the usual course is that what counts rises first and falls
afterwards. Or the reward has gone at least half of its way, from where it started to its maximum, and what counts at
most a tenth of its own way: more than half can hardly be earned by parts that are learnt first, such as the form of an
answer.
"""

from __future__ import annotations

from statistics import fmean

from rlft.evaluation.comparison import Comparison, compare, ends_of
from rlft.evaluation.diagnosis.history import Finding, History, falls, largest_rise, passes, rises
from rlft.outcome import NO_SCORE, Fate
from rlft.types import EvaluationReport

WON, WON_OF_WHAT_COUNTS = 0.5, 0.1  # of the way from the start to the maximum
LOST = 0.25  # of what counted in the first third of the rounds
READ = (
    "Read the attempts that are paid most (`rlft show RUN ROUND`), and attack the reward with what they do "
    "(`attacks(task)` of the environment, `rlft audit`) before training again."
)


def overoptimization(history: History) -> Finding | None:
    """The reward rises on validation, and what counts falls or stays, task by task against an earlier validation."""
    found = _scored(history)
    if len(found) < 2:
        return None
    *earlier, (_, last) = found
    for (number, before), level in zip(earlier, _shares(history.level, len(earlier)), strict=True):
        confidence = 1 - 2 * level  # of two-sided intervals, of which one end is asked
        paid = compare(last, before, "reward", confidence=confidence)
        counted = compare(last, before, history.counted, confidence=confidence)
        if paid is None or counted is None or not paid.exceeds(0):
            continue
        is_start = before is earlier[0][1]
        if counted.high_with_errors < 0 or (is_start and _stays(history, paid, counted)):
            return _overoptimized(history, paid, counted, None if is_start else number)
    return None


def _shares(level: float, count: int) -> list[float]:
    """Return the chance of a false alarm for each of so many earlier validations: half for the start, if others follow.

    They add up to `level`. The start has more, as what falls below it was never learnt at all.
    """
    return [level] if count == 1 else [level / 2, *[level / 2 / (count - 1)] * (count - 1)]


def _stays(history: History, paid: Comparison, counted: Comparison) -> bool:
    """Return whether the reward has gone half of its way from the start, and what counts has not moved."""
    way, own = (_way(history, metric, each.before) for metric, each in (("reward", paid), (history.counted, counted)))
    return paid.low_with_errors >= WON * way > 0 and counted.high_with_errors <= WON_OF_WHAT_COUNTS * own


def _overoptimized(history: History, paid: Comparison, counted: Comparison, since: int | None) -> Finding:
    """Return what was seen since the validation after `since` rounds; `None` is the one before training."""
    has_fallen = counted.high_with_errors < 0
    after = "" if since is None else f" since round {since}"
    return Finding(
        "overoptimization",
        f"On {paid.difference.count} validation tasks the reward rose{after} from {paid.before:.2f} to "
        f"{paid.after:.2f} (by at least {paid.low_with_errors:.2f}), and {history.counted_in_words} went from "
        f"{counted.before:.2f} to {counted.after:.2f} (it has {'fallen' if has_fallen else 'risen by at most'} "
        f"{'by at least ' if has_fallen else ''}{abs(counted.high_with_errors):.2f}).",
        READ,
    )


def reward_gap(history: History) -> Finding | None:
    """The reward rises in the attempts that are trained on, and what counts there falls or stays."""
    paid, counted = history.curve("reward"), history.curve(history.counted_in_rounds)
    third = len(paid) // 3
    if not third or len(counted) != len(paid) or not rises(paid, history.level):
        return None
    (low, high), (before, after) = ((fmean(each[:third]), fmean(each[-third:])) for each in (paid, counted))
    has_fallen = before - after >= LOST * before > 0 and falls(counted, history.level)
    way, own = _way(history, "reward", low), _way(history, history.counted, before)
    stays = high - low >= WON * way > 0 and largest_rise(counted, history.level) <= WON_OF_WHAT_COUNTS * own
    if not (has_fallen or stays):
        return None
    return Finding(
        "reward gap",
        f"In training the reward rose from {low:.2f} to {high:.2f}, and {history.counted_in_words} went from "
        f"{before:.2f} to {after:.2f} (first and last third of the rounds).",
        READ,
    )


def _scored(history: History) -> list[tuple[int, EvaluationReport]]:
    """Return the validations in which some task has a reward and a score in what counts, by the rounds before them."""
    found = sorted(history.validations.items())
    return [
        (number, each) for number, each in found if each.per_task.get("reward") and each.per_task.get(history.counted)
    ]


def _way(history: History, metric: str, start: float) -> float:
    """Return how far a score could rise: to its declared maximum, else to the highest that validation has seen."""
    reports = [each for _, each in _scored(history)]
    return ends_of(metric, *reports).high - start if reports else 0.0


REPEATED = 0.5  # of the runs of four tokens within an attempt
MORE = 2.0  # times what there was
CALLS = 1.0  # more calls of an attempt
ATTACKS = 0.1  # of the attempts
UNSCORED = 0.05  # of the attempts
LOOKED_AT = 16  # tasks of a round at most, as the attacks at a task take some hundredths of a second to make
_NO_SCORE = str(Fate("errored", NO_SCORE))
PAID_ATTACKS = "attacks/paid_ratio"
"""The metric of a round: the share of attempts that are a known attack and are paid (`rlft.rewards.audit.matching`)."""


def part_divergence(history: History) -> Finding | None:
    """One part of the reward rises, and another falls by a quarter of what it was; a penalty that falls rises."""
    signed = {
        part: [weight * score for score in history.curve(f"rewards/{part}/mean")]
        for part in history.parts()
        if (weight := history.weights.get(part, 1.0))
    }
    level = history.level / max(1, len(signed))
    risen = [part for part, curve in signed.items() if rises(curve, level)]
    for part, curve in signed.items():
        change = history.change(f"rewards/{part}/mean")
        if not risen or change is None or not falls(curve, level):
            continue
        if abs(change[1] - change[0]) >= LOST * abs(change[0]):
            return Finding(
                "part divergence",
                f"The part `{risen[0]}` of the reward has risen, and `{part}` went from {change[0]:.2f} to "
                f"{change[1]:.2f}.",
                "Look whether the one can be had only at the cost of the other, and whether their weights say what "
                "that is worth (reward.weights).",
            )
    return None


def repetition(history: History) -> Finding | None:
    """Attempts that repeat their own runs of four tokens more and more."""
    change = history.change("completions/repetition_ratio")
    if change is None or change[1] < max(REPEATED, MORE * change[0]):
        return None
    if not rises(history.curve("completions/repetition_ratio"), history.level):
        return None
    return Finding(
        "repetition",
        f"{change[1]:.0%} of the runs of four tokens in an attempt have been said in it before; at first it was "
        f"{change[0]:.0%}.",
        "Look whether a part of the reward pays for length or for words that may be said again, and bound the length "
        "(rollout.max_completion_length).",
    )


def tool_spam(history: History) -> Finding | None:
    """Attempts that call tools more and more often."""
    change = history.change("tools/call_frequency")
    if change is None or change[1] < MORE * change[0] or change[1] - change[0] < CALLS:
        return None
    if not rises(history.curve("tools/call_frequency"), history.level):
        return None
    return Finding(
        "tool spam",
        f"An attempt calls tools {change[1]:.1f} times; at first it was {change[0]:.1f}.",
        "Look whether a call is paid whatever it is for, and bound the calls (harness.max_tool_calls).",
    )


def known_attacks(history: History) -> Finding | None:
    """Attempts that are, word for word, an attack that the audit knows, and earn more than attempts did at first."""
    curve = history.curve(PAID_ATTACKS)
    third = len(curve) // 3
    share = sum(curve[-third:]) / third if third else 0.0
    groups = min(history.groups(third), third * LOOKED_AT)
    if not third or not passes(share, ATTACKS, groups, history.level):
        return None
    return Finding(
        "known attacks",
        f"{share:.0%} of the attempts in the last third of the rounds are attacks that the audit knows, and earn more "
        "than the mean attempt of the first round.",
        READ,
    )


def unscored_attempts(history: History) -> Finding | None:
    """Attempts on which the reward fails, which leave their group without the score that they deserve."""
    third = len(history.rounds) // 3
    last = [fate for report in history.rounds[-third:] for fate in report.fates.values()] if third else []
    share = sum(fate.startswith(_NO_SCORE) for fate in last) / len(last) if last else 0.0
    # By attempts, not by groups: a reward that is well fails on none.
    if not passes(share, UNSCORED, len(last), history.level):
        return None
    return Finding(
        "unscored attempts",
        f"The reward failed on {share:.0%} of the attempts in the last third of the rounds. They left their groups "
        "without a score, so that a bad attempt that makes the reward fail is not told from the others.",
        "`rlft show RUN ROUND --only errors` names the reasons. Where attempts bring them about, let the reward give "
        "these attempts the lowest score.",
    )
