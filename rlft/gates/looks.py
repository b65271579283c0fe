"""Splits the chance of a false promotion over the decisions by one gate, of models that it had no part in choosing."""

from __future__ import annotations

from dataclasses import dataclass

_FALSE = 0.05  # the chance that one of all looks promotes a model that is no better
_ONE_SIDED = 0.025  # of a single look it is no more than this: that of a 95 % interval
CHOOSING = (
    "Choose no model by what `gate` says, and go on from none that did best there: that at most 5 of 100 series of "
    "looks promote a model that is no better holds only for models that the gate had no part in choosing. Choose by "
    "validation."
)


@dataclass(frozen=True, slots=True)
class Look:
    """One decision on the tasks of a gate: its `number`, from 1, and what all looks so far have `spent`, this included.

    What is spent is a share of the chance of 5 % that they have in common: 1 / looks of each, by the `promotion.looks`
    that it was decided with.
    """

    number: int = 1
    spent: float = 1.0

    @property
    def is_allowed(self) -> bool:
        """Whether the chance of 5 % is not overspent."""
        return self.spent <= 1 + 1e-9  # twenty times 1/20 add up to a little more than 1


FIRST_LOOK = Look()


def next_look(past: Look, looks: int) -> Look:
    """Return the look after the last one, which is of number 0 without any, if it is one of so many."""
    return Look(past.number + 1, past.spent + 1 / looks)


def why_refused(look: Look, looks: int) -> str | None:
    """Return why nothing may be promoted at this look, by `promotion.looks`, and what to do; `None` if it may be."""
    if look.is_allowed:
        return None
    if look.number > looks:
        why = f"promotion.looks allows {looks}"
    else:
        why = f"what these have left of the chance of 5 % is less than one of {looks} looks takes"
    return (
        f"the gate has been looked at {look.number - 1} times, and {why}: by now chance could have promoted a model "
        "that is no better; draw a fresh gate (another tasks.seed, or new tasks)"
    )


def confidence_at(looks: int) -> float:
    """Return the two-sided confidence of each of so many looks at one gate.

    The lower bound of each is wrong with a chance of at most 0.05 / looks, so that of series of so many models that are
    no better at most 5 % contain a promotion (Bonferroni). It is never below 0.95. This holds as long as no model is
    chosen by what the gate has said. If each run goes on from the best on it so far, luck on its tasks is handed down
    and adds up: of such series of 20 looks up to 21 % promote (docs/performance.md, Intervals).

    >>> from rlft.gates.looks import confidence_at
    >>> confidence_at(20)
    0.995
    """
    return 1 - 2 * min(_ONE_SIDED, _FALSE / looks)
