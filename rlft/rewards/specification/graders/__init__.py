"""The graders that are shipped, by type; a file holds those with the same subject.

- `texts`, `values`: graders that look at a text, or at a value in it
- `judged`: graders that ask a function of the user's, or a judge

Every class with a `type` in a file of this room can be chosen by a criterion's `grader: {type: ...}`. Its fields are
the settings there; its docstring stands in docs/guide/graders.md, and what it `says` in a specification in words.
"""

from importlib import import_module
from pkgutil import iter_modules

from rlft.rewards.specification.grader import Grader

__all__ = ["GRADERS", "Grader"]


def _shipped() -> dict[str, type[Grader]]:
    """Return {type: class} of the graders in this room's files, in the order of the alphabet.

    Raises TypeError if two classes have one type.
    """
    shipped: dict[str, type[Grader]] = {}
    for module in (import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)):
        for found in vars(module).values():
            is_own = isinstance(found, type) and issubclass(found, Grader) and found.__module__ == module.__name__
            if is_own and (name := found.kind()) and shipped.setdefault(name, found) is not found:
                raise TypeError(f"two graders have the type {name!r}: {shipped[name].__module__}, {module.__name__}")
    return dict(sorted(shipped.items()))


GRADERS = _shipped()
