"""Signs that what is paid is not what is wanted, and the table of all that is looked for in the rounds of a run.

Each row of the table names a check, and when it is asked: at the end, after each round, or both. A monitor is asked
after each round instead of once, so at a level that all looks share. What each can see and what it cannot, with
figures, stands in docs/guide/diagnosis.md and docs/guide/monitors.md.

`overoptimization` and `reward_gap` see that the reward rises and what counts does not: a loophole is learnt, or what is
paid is not what is wanted. Gao, Schulman & Hilton 2023 (Scaling Laws for Reward Model Overoptimization, ICML) call the
two proxy and gold reward. Two patterns count as seen. Either the reward rises and what counts *falls*, both beyond
chance, since before training or since any later validation: the usual course is that what counts rises first and falls
afterwards. Or the reward has gone at least half of its way, from where it started to its maximum, and what counts at
most a tenth of its own way: more than half can hardly be earned by parts that are learnt first, such as the form of an
answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from rlft.config.training import Action
from rlft.evaluation.comparison import Comparison, compare, ends_of
from rlft.evaluation.diagnosis import causes
from rlft.evaluation.diagnosis.history import LEVEL, Finding, History, falls, largest_rise, passes, rises
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


@dataclass(frozen=True, slots=True)
class Row:
    """A check, and when it is asked.

    `at_the_end` says whether `diagnose` asks it, and `ends_a_rise` whether also of a run that has risen: other causes
    did no harm there. Where it is a monitor, too, `monitor` is its name, and it is asked after each of the `looks`. One
    that `needs_harm` is silent where a validation was measurably better than the one before training and the last is
    not measurably worse than any.
    """

    check: Callable[[History], Finding | None]
    monitor: str = ""
    at_the_end: bool = True
    ends_a_rise: bool = False
    looks: Literal["rounds", "validations"] = "rounds"
    needs_harm: bool = False


# In the order in which one cause brings about others: what is always the same text has the same reward, what is cut off
# is not solved, and a policy that has learnt its tasks by heart has little entropy.
TABLE = (
    Row(overoptimization, "overoptimization", at_the_end=False, looks="validations"),
    Row(reward_gap, "reward_gap", at_the_end=False),
    Row(causes.errors),
    Row(causes.engine_mismatch),
    Row(causes.too_large_steps),
    Row(causes.failing_tools),
    Row(causes.contradictions),
    Row(causes.duplicates),
    Row(causes.other_pay),
    Row(causes.memorising, "unseen_tasks", ends_a_rise=True),
    Row(causes.constant_answer, "identical_completions", ends_a_rise=True),
    Row(causes.fallen_back, ends_a_rise=True),
    Row(causes.collapsed_entropy, "entropy_collapse", needs_harm=True),
    Row(causes.worse_than_start),
    Row(causes.unpaid_part),
    Row(causes.truncation),
    Row(causes.unanswered),
    Row(causes.no_variance),
    Row(causes.too_small_steps),
    Row(causes.length_drift, "length_drift", needs_harm=True),
    Row(repetition, "repetition", at_the_end=False, needs_harm=True),
    Row(tool_spam, "tool_spam", at_the_end=False, needs_harm=True),
    Row(known_attacks, "known_attacks", at_the_end=False),
    Row(unscored_attempts, "unscored_attempts", at_the_end=False),
)
MONITORS: Mapping[str, Row] = {row.monitor: row for row in TABLE if row.monitor}
AT_THE_END = tuple(row for row in TABLE if row.at_the_end)


def diagnose(history: History) -> list[Finding]:
    """Return why a reward does not rise, the likeliest cause first.

    Of a run that has measurably risen, on validation or on the test split, it is only what ended its rise.
    """
    risen = history.has_risen()
    asked = [row.check for row in AT_THE_END if row.ends_a_rise or not risen]
    return [finding for check in asked if history.rounds and (finding := check(history)) is not None]


@dataclass(frozen=True, slots=True)
class Alarm:
    """What a monitor has seen after so many rounds: a sentence with its numbers, another that says what to do."""

    monitor: str
    action: Action
    rounds: int
    what: str
    remedy: str

    @property
    def text(self) -> str:
        """Both sentences, when it was seen, and where the guide explains them."""
        after = "1 round" if self.rounds == 1 else f"{self.rounds} rounds"
        return f"After {after}: {self.what} {self.remedy} More: docs/guide/monitors.md#{self.monitor}"


def of_validation(actions: Mapping[str, Action]) -> dict[str, Action]:
    """Return the actions of those monitors that look at validation alone.

    Only these are about the policy that is trained where its rounds have attempts that another one has sampled.
    """
    return {name: action for name, action in actions.items() if MONITORS[name].looks == "validations"}


def watch(history: History, actions: Mapping[str, Action], *, rounds: int, validations: int) -> list[Alarm]:
    """Return what the monitors see in the rounds so far, in the order of the table.

    `actions` are those of the config; a monitor that is `off`, or not named, is not asked. `rounds` and `validations`
    are how many of either the whole run will have (without the validation before training), 1 or more: so many looks
    share the `LEVEL` of a monitor (Bonferroni), as each of them may be deceived by chance. What validation says is read
    in the metric that counts (`History.counted`).
    """
    if not history.rounds:
        return []
    asked = replace(history, metric=history.counted)
    unharmed = asked.validation_has_risen_and_stays()
    done, looks = len(history.rounds), {"rounds": rounds, "validations": validations}
    found = []
    for name, monitor in MONITORS.items():
        action = actions.get(name, "off")
        if action == "off" or (monitor.needs_harm and unharmed):
            continue
        seen = monitor.check(replace(asked, level=LEVEL / looks[monitor.looks]))
        if seen is not None:
            found.append(Alarm(name, action, done, seen.what, seen.remedy))
    return found
