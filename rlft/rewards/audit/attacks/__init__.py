"""The kinds of attack, by family: a file of this room holds one in its table `ATTACKS`, where they are found.

- `base`: what a kind of attack is, and what attackers know of a task and of all train golds
- `texts`: golds read: their form, their items, and other answers in the same form
- `silence`: nothing, or the same for all
- `wrong`: another task's answer, a piece of gold, nearly gold, a sentence that means something else
- `comparing`: several answers at once, gold denied, and texts that are evaluated or matched
- `objects`: the right form without the right content
- `padding`: long texts, and words to a judge
- `calling`: calls of tools without sense
- `programs`: programs that fool their tests

A new kind is one entry of a table, with its own test; a new family is one file.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules

from rlft.harness.scripted import Script
from rlft.rewards.audit.attacks.base import Attack, Known

_PLAIN = ("silence", "wrong")  # they are told first, as the report tells five of the kinds that fail a reward


def _shipped() -> dict[str, Attack]:
    """Return {name: kind} of the tables in this room, those that are tried everywhere first.

    Raises TypeError if two kinds have one name.
    """
    files = sorted((found.name for found in iter_modules(__path__)), key=lambda name: (name not in _PLAIN, name))
    tables = (getattr(import_module(f"{__name__}.{file}"), "ATTACKS", ()) for file in files)
    found = sorted((attack for table in tables for attack in table), key=lambda attack: not attack.everywhere)
    shipped = {attack.name: attack for attack in found}
    if twice := [attack.name for attack in found if shipped[attack.name] is not attack]:
        raise TypeError(f"two kinds of attack are called {twice[0]!r}")
    return shipped


KINDS: Mapping[str, Attack] = _shipped()
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
