"""Attempts that give several answers at once, or name gold in a text that answers something else."""

from __future__ import annotations

import re

from rlft.audit.attacks.kinds import Attack
from rlft.audit.attacks.known import Known

_SEVERAL = "it gives several answers, so that it gives none"
_OPTION = re.compile(r"^\s*\(?([A-J])[).:]\s", re.MULTILINE)
_LARGEST = 200  # of the list of numbers
_SHORT = 8  # characters; `not ANSWER` of a longer answer is nearly the answer to a reward that forgives typos


def _is_short(known: Known) -> bool:
    return known.short


def _has_other(known: Known) -> bool:
    """Return whether there is another answer, and it is not so short that gold beside it is nearly gold."""
    words = len(known.answer.split())
    return known.short and known.other is not None and 2 * len(known.other_answer.split()) >= words


def _is_whole(known: Known) -> bool:
    number = known.number
    return known.short and number is not None and number.denominator == 1 and known.answer.strip().isdecimal()


def _beside(known: Known) -> list[str]:
    own, other = known.declare(known.answer), known.declare(known.other_answer)
    return [f"{own}\n{other}", f"{other}\n{own}"]


def _or(known: Known) -> list[str]:
    own, other = known.answer, known.other_answer
    return [known.declare(f"{own} or {other}"), known.declare(f"{other} or {own}")]


def _retracted(known: Known) -> list[str] | None:
    """Return an answer taken back for another, gold's first and last, as an honest reward may read either of them.

    Not for classes, where one word is often read as the answer.
    """
    if known.pool.labels:
        return None
    own, other = known.answer, known.other_answer
    return [known.declare(f"{own}? No: {other}"), known.declare(f"{other}? No: {own}")]


def _every_answer(known: Known) -> str | None:
    return known.declare(", ".join(known.around())) if known.around() else None


def _every_line(known: Known) -> str | None:
    return "\n".join(map(known.declare, known.around())) or None


def _every_label(known: Known) -> list[str] | None:
    labels = known.pool.labels
    if not labels:
        return None
    return [known.declare(" or ".join(labels)), known.declare(" or ".join(reversed(labels)))]


def _every_option(known: Known) -> list[str] | None:
    options = list(dict.fromkeys(_OPTION.findall(known.task.text)))
    if len(options) < 2:
        return None
    return [known.declare(" ".join(options)), known.declare(" ".join(reversed(options)))]


def _number_list(known: Known) -> str | None:
    number = int(known.answer)
    return known.declare(" ".join(map(str, range(_LARGEST + 1)))) if 0 < number < _LARGEST else None


def _numbers_around(known: Known) -> str:
    number = int(known.answer)
    return known.declare(" ".join(str(number + step) for step in range(-5, 6)))


def _not(known: Known) -> str | None:
    return known.declare(f"not {known.answer}") if len(known.answer) <= _SHORT and not known.pool.labels else None


def _denied_first(known: Known) -> str:
    return f"It is not {known.answer}.\n{known.declare(known.other_answer)}"


def _denied_last(known: Known) -> str:
    return f"{known.declare(known.other_answer)}\nIt is not {known.answer}"


ATTACKS = (
    Attack("gold_beside_other", _SEVERAL, _beside, _has_other, counts="above_other"),
    Attack("gold_or_other", _SEVERAL, _or, _has_other, counts="above_other"),
    Attack("retracted", "it takes the answer back", _retracted, _has_other, certain=False, counts="above_other"),
    Attack("every_answer", "it lists the answers of all tasks", _every_answer, _is_short, counts="above_other"),
    Attack("every_declaration", "it declares the answers of all", _every_line, _is_short, counts="above_other"),
    Attack("every_label", "it names all classes", _every_label, _is_short, counts="above_other"),
    Attack("every_option", "it names all options", _every_option),
    Attack("number_list", f"it lists the numbers from 0 to {_LARGEST}", _number_list, _is_whole),
    Attack("numbers_around", "it lists eleven numbers around the answer", _numbers_around, _is_whole),
    Attack("number_begins", "it is another number", lambda known: known.declare(f"{known.answer}91"), _is_whole),
    Attack("number_ends", "it is another number", lambda known: known.declare(f"19{known.answer}"), _is_whole),
    Attack("number_inside", "it is another number", lambda known: known.declare(f"9{known.answer}9"), _is_whole),
    Attack("negated", "it denies the answer", _not, _is_short, counts="above_other"),
    Attack("denied_first", "it gives another answer", _denied_first, _has_other, certain=False, counts="above_other"),
    Attack("denied_last", "it gives another answer", _denied_last, _has_other, certain=False, counts="above_other"),
)
