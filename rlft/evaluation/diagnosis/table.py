"""The table of all that is looked for in the rounds of a run: at its end, while it trains, or both.

Each row names a check, which is a pure function of what is stored of the rounds: it says at which numbers it looks,
when they show more than chance, in a sentence what they show, and in another what to do. A monitor is asked after each
round instead of once, so at a level that all looks share. What each can see and what it cannot, with figures, stands in
docs/guide/diagnosis.md and docs/guide/monitors.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from rlft.config.training import Action
from rlft.evaluation.diagnosis import data, hacking, learning, unseen
from rlft.evaluation.diagnosis.history import LEVEL, Finding, History


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
    Row(hacking.overoptimization, "overoptimization", at_the_end=False, looks="validations"),
    Row(hacking.reward_gap, "reward_gap", at_the_end=False),
    Row(data.errors),
    Row(learning.engine_mismatch),
    Row(learning.too_large_steps),
    Row(learning.too_large_first_steps),
    Row(learning.exploded_entropy),
    Row(data.failing_tools),
    Row(data.contradictions),
    Row(data.duplicates),
    Row(data.other_pay),
    Row(unseen.memorising, "unseen_tasks", ends_a_rise=True),
    Row(unseen.constant_answer, "identical_completions", ends_a_rise=True),
    Row(unseen.fallen_back, ends_a_rise=True),
    Row(learning.collapsed_entropy, "entropy_collapse", needs_harm=True),
    Row(unseen.worse_than_start),
    Row(data.unpaid_part),
    Row(data.truncation),
    Row(data.unanswered),
    Row(data.no_variance),
    Row(learning.too_small_steps),
    Row(learning.clipping),
    Row(learning.length_drift, "length_drift", needs_harm=True),
    Row(learning.standing_still, ends_a_rise=True),
    Row(data.free_part),
    Row(hacking.part_divergence, "part_divergence", at_the_end=False),
    Row(hacking.repetition, "repetition", at_the_end=False, needs_harm=True),
    Row(hacking.tool_spam, "tool_spam", at_the_end=False, needs_harm=True),
    Row(hacking.known_attacks, "known_attacks", at_the_end=False),
    Row(hacking.unscored_attempts, "unscored_attempts", at_the_end=False),
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
