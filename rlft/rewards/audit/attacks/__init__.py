"""The kinds of attack: the table `ATTACKS` of each file here holds those of its families.

- `base`: what a kind of attack is, and what attackers know of a task and of all train golds
- `texts`: golds read: their form, their items, and other answers in the same form
- `answers`: silence, wrong answers, several answers at once, long texts and words to a judge
- `forms`: JSON, calls of tools and programs in the right form without the right content

A new kind is one entry of a table, with its own test.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules

from rlft.harness.scripted import Script
from rlft.rewards.audit.attacks.base import Attack, Known

_files = [import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)]
_own: list[Attack] = [attack for file in _files for attack in getattr(file, "ATTACKS", ())]
_ALL = sorted(_own, key=lambda attack: not attack.everywhere)
KINDS: Mapping[str, Attack] = {attack.name: attack for attack in _ALL}
"""All kinds by name, in the order in which they are tried."""
FIRST = tuple(name for name, attack in KINDS.items() if attack.everywhere)
"""The names of the kinds that are tried on every task that is audited."""


def kind_of(name: str) -> Attack:
    """Return the kind of this name; for a name of an environment's own attack a kind that is certain to be wrong."""
    return KINDS.get(name) or Attack(name, "the environment names it as an attack", lambda known: known.own.get(name))


def attempts_at(known: Known, *, all_kinds: bool) -> dict[str, list[Script]]:
    """Return {kind: its variants} of the attempts at a task: those of `FIRST` alone, or of all kinds and its own."""
    kinds = map(kind_of, (*KINDS, *known.own) if all_kinds else FIRST)
    made = ((kind.name, kind.scripts(known)) for kind in kinds)
    return {name: scripts for name, scripts in made if scripts}
