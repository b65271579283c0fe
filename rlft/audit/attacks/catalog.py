"""All kinds of attacks in the order in which they are tried, and the attempts at one task."""

from __future__ import annotations

from collections.abc import Mapping

from rlft.audit.attacks import (
    calling,
    citing,
    comparing,
    constants,
    fields,
    forms,
    hedges,
    judging,
    near,
    objects,
    others,
    padding,
    programs,
    sentences,
    silence,
)
from rlft.audit.attacks.kinds import Attack
from rlft.audit.attacks.known import Known
from rlft.harness.scripted import Script

FIRST = (*silence.FIRST, *others.FIRST)
"""The kinds that are tried on every task that is audited."""
FAMILIES: dict[str, tuple[Attack, ...]] = {
    "silence": (*silence.FIRST, *silence.ATTACKS),
    "others": (*others.FIRST, *others.ATTACKS),
    "near": near.ATTACKS,
    "sentences": sentences.ATTACKS,
    "constants": constants.ATTACKS,
    "comparing": comparing.ATTACKS,
    "hedges": hedges.ATTACKS,
    "forms": forms.ATTACKS,
    "objects": objects.ATTACKS,
    "fields": fields.ATTACKS,
    "padding": padding.ATTACKS,
    "judging": judging.ATTACKS,
    "citing": citing.ATTACKS,
    "calling": calling.ATTACKS,
    "programs": programs.ATTACKS,
}
"""The kinds by family; the families are the files of this room."""
ATTACKS = (*FIRST, *(each for family in FAMILIES.values() for each in family if each not in FIRST))
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
