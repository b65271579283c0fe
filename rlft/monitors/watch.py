"""All monitors by name, and the question to them after a round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from rlft.config.training import Action
from rlft.diagnosis import Finding, History
from rlft.diagnosis.learning import collapsed_entropy, length_drift
from rlft.diagnosis.unseen import constant_answer, memorising
from rlft.monitors import overoptimization, signs
from rlft.monitors.alarm import Alarm

LEVEL = 0.01  # the chance of a false alarm of one monitor in a whole run, if nothing that it looks at changes


@dataclass(frozen=True, slots=True)
class Monitor:
    """A question to the rounds so far.

    It is asked after each of the `looks`. One that `needs_harm` is silent where a validation was measurably better than
    the one before training and the last is not measurably worse than any, as what it sees did no harm then.
    """

    check: Callable[[History], Finding | None]
    looks: Literal["rounds", "validations"] = "rounds"
    needs_harm: bool = False


MONITORS: Mapping[str, Monitor] = {
    "overoptimization": Monitor(overoptimization.overoptimization, "validations"),
    "reward_gap": Monitor(overoptimization.reward_gap),
    "unseen_tasks": Monitor(memorising),
    "part_divergence": Monitor(signs.part_divergence),
    "length_drift": Monitor(length_drift, needs_harm=True),
    "repetition": Monitor(signs.repetition, needs_harm=True),
    "entropy_collapse": Monitor(collapsed_entropy, needs_harm=True),
    "tool_spam": Monitor(signs.tool_spam, needs_harm=True),
    "identical_completions": Monitor(constant_answer),
    "known_attacks": Monitor(signs.known_attacks),
    "unscored_attempts": Monitor(signs.unscored_attempts),
}


def of_validation(actions: Mapping[str, Action]) -> dict[str, Action]:
    """Return the actions of those monitors that look at validation alone.

    Only these are about the policy that is trained where its rounds have attempts that another one has sampled.
    """
    return {name: action for name, action in actions.items() if MONITORS[name].looks == "validations"}


def watch(history: History, actions: Mapping[str, Action], *, rounds: int, validations: int) -> list[Alarm]:
    """Return what the monitors see in the rounds so far, in the order of `MONITORS`.

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
