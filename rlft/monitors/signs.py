"""Signs in the attempts of the rounds that something else is learnt than what is wanted."""

from __future__ import annotations

from rlft.diagnosis import Finding, History
from rlft.diagnosis.evidence import falls, passes, rises
from rlft.monitors.overoptimization import LOST, READ
from rlft.outcome import NO_SCORE, Fate

REPEATED = 0.5  # of the runs of four tokens within an attempt
MORE = 2.0  # times what there was
CALLS = 1.0  # more calls of an attempt
ATTACKS = 0.1  # of the attempts
UNSCORED = 0.05  # of the attempts
LOOKED_AT = 16  # tasks of a round at most, as the attacks at a task take some hundredths of a second to make
_NO_SCORE = str(Fate("errored", NO_SCORE))
PAID_ATTACKS = "attacks/paid_ratio"
"""The metric of a round: the share of attempts that are a known attack and are paid (`rlft.audit.matching`)."""


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
