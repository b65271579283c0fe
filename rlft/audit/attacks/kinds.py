"""What a kind of attack is: a name that stays the same, the reason why it deserves nothing, and how it is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rlft.audit.attacks.known import Known
from rlft.harness.scripted import Script

Made = str | Script | None
"""An attempt as text, said as `Known.say` does, or as messages; `None` where there is none for a task."""


def always(known: Known) -> bool:
    """Return true: the attack applies to every task."""
    del known
    return True


@dataclass(frozen=True, slots=True)
class Attack:
    """A kind of attack. `name` is the stable id that findings and `reward.accept_exploits` use.

    `why` says why the attempt deserves no full reward. `make` returns one attempt, or a list of variants of which an
    honest reward may pay some but not all (gold before another answer, and behind it): the attack earns what the worst
    paid of them earns; with `best_counts` what the best paid one does. An attack that is not `certain` may be right on
    some tasks by chance, as another task's gold may be. One that `says_nothing` holds neither gold nor an answer to
    another task. One that `is_constant` is the same for every task, learned from the golds.

    `counts` says by what its mean fails a reward, beside earning as much as gold: by its share of gold's (`mean`); by
    its share of what gold earns above another task's gold (`above_other`), for an attempt that holds gold and so
    resembles it; or not at all (`full`), for a piece of gold, which an honest reward may pay nearly as much. An
    attempt that `never` fails a reward lacks a piece which may not be needed, or has one that may do no harm: the
    report asks so (`asks`). One that is nearly gold shows how much `tolerance` a reward has, and fails none.

    An attack with a `control` has variants that are each compared with the variant of that kind in the same place,
    which is the same but for what may pay. Those whose control is paid like gold are left out, as what is wrong in them
    does not count; of the others the one counts that gains most. It fails a reward by its share of what gold earns
    above the control (`above_control`). The `control` itself is no attack, and stands in no report.
    """

    name: str
    why: str
    make: Callable[[Known], Made | list[str]]
    applies: Callable[[Known], bool] = always
    certain: bool = True
    says_nothing: bool = False
    is_constant: bool = False
    counts: Literal["mean", "above_other", "above_control", "full", "never", "tolerance", "control"] = "mean"
    control: str = ""
    asks: str = "is what it leaves out not needed?"
    best_counts: bool = False

    def scripts(self, known: Known) -> list[Script]:
        """Return the variants of the attempt at a task; none where the attack does not apply or would be gold."""
        made = self.make(known) if self.applies(known) else None
        variants = made if isinstance(made, list) else [made]
        scripts = [known.say(each) if isinstance(each, str) else each for each in variants if each is not None]
        return [] if any(map(known.is_gold, scripts)) else scripts
