"""All kinds of attacks in the order in which they are tried, and the attempts at one task."""

from __future__ import annotations

from collections.abc import Mapping

from rlft.audit.attacks import calling, comparing, objects, padding, programs, silence, wrong
from rlft.audit.attacks.attack import Attack, Known
from rlft.harness.scripted import Script

FIRST = (*silence.FIRST, *wrong.FIRST)
"""The kinds that are tried on every task that is audited."""
ATTACKS = (
    *FIRST, *silence.ATTACKS, *wrong.OTHERS, *wrong.NEAR, *wrong.SENTENCES, *silence.CONSTANTS, *comparing.COMPARING,
    *comparing.HEDGES, *objects.FORMS, *objects.OBJECTS, *objects.FIELDS, *padding.PADDING, *padding.JUDGING,
    *comparing.CITING, *calling.CALLING, *programs.PROGRAMS,
)  # fmt: skip
"""All kinds, those of `FIRST` first."""
KINDS: Mapping[str, Attack] = {attack.name: attack for attack in ATTACKS}
"""The kinds by name."""


def kind_of(name: str) -> Attack:
    """Return the kind of this name; for a name of an environment's own attack a kind that is certain to be wrong."""
    return KINDS.get(name) or Attack(name, "the environment names it as an attack", lambda known: known.own.get(name))


def attempts_at(known: Known, *, all_kinds: bool) -> dict[str, list[Script]]:
    """Return {kind: its variants} of the attempts at a task: those of `FIRST` alone, or of all kinds and its own."""
    kinds = [*ATTACKS, *map(kind_of, known.own)] if all_kinds else FIRST
    made = ((kind.name, kind.scripts(known)) for kind in kinds)
    return {name: scripts for name, scripts in made if scripts}
