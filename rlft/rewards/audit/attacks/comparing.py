"""Attempts at rewards that look for gold, evaluate or match it where they should compare the whole answer with it.

They name the variable that holds gold, give several answers at once, name gold in a text that denies it, or cite
everything, where gold cites documents that a field of the task lists.
"""

from __future__ import annotations

import re

from rlft.rewards.audit.attacks.base import MOST_ANSWERS, Attack, Known

_NAMES = (
    "ground_truth", "answer", "gold", "expected", "target", "label", "task.answer", "completion.task.answer",
    "{ground_truth}", "{answer}", "{{item.answer}}",
)  # fmt: skip
_MOST_COLUMNS = 4
_SHORTEST = 4  # letters of a word that is turned round
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


def _gold_by_name(known: Known) -> list[str]:
    """Return the names under which code has gold, with those of the columns whose value gold is."""
    columns = [name for name, value in known.task.info.items() if str(value).strip() == known.answer.strip()]
    return list(dict.fromkeys([*_NAMES, *columns[:_MOST_COLUMNS]]))


def _reversed(known: Known) -> str | None:
    answer = known.answer.strip()
    is_word = len(answer) >= _SHORTEST and answer.isalpha()
    return known.declare(answer[::-1]) if is_word and answer[::-1].casefold() != answer.casefold() else None


def _every_answer(known: Known) -> str | None:
    return known.declare(", ".join(known.around())) if known.around() else None


def _both_orders(known: Known, said: list[str]) -> list[str] | None:
    """Return two lists of all that may be said, as an honest reward may read the first or the last."""
    return [known.declare(" or ".join(each)) for each in (said, said[::-1])] if len(said) >= 2 else None


def _number_list(known: Known) -> str | None:
    number = int(known.answer)
    return known.declare(" ".join(map(str, range(_LARGEST + 1)))) if 0 < number < _LARGEST else None


def _number_inside(known: Known) -> list[str]:
    return [known.declare(each) for each in (f"{known.answer}91", f"19{known.answer}", f"9{known.answer}9")]


def _not(known: Known) -> str | None:
    return known.declare(f"not {known.answer}") if len(known.answer) <= _SHORT and not known.pool.labels else None


def _field(known: Known) -> str:
    """Return the field of `task.info` whose texts gold all cites, if other tasks list others; else nothing."""
    for name, every in known.pool.lists.items():
        ids = known.task.info.get(name) or []
        if ids and ids != known.task.answer and len(every) > len(ids) and all(each in known.text for each in ids):
            return name
    return ""


def _cites(known: Known) -> bool:
    return bool(_field(known))


def _every_source(known: Known) -> str:
    """Return gold's text with the ids of all tasks where it has its own."""
    text, own = known.right, known.task.info[_field(known)]
    begin, end = text.rfind(own[0]), text.rfind(own[-1]) + len(own[-1])
    every = dict.fromkeys([*known.pool.lists[_field(known)][:MOST_ANSWERS], *own])
    return f"{text[:begin]}{', '.join(every)}{text[end:]}"


ATTACKS = (
    Attack("gold_by_name", "it names the variable that holds gold", _gold_by_name, _is_short, certain=False,
           says_nothing=True, best_counts=True),
    Attack("pattern", "it is a pattern that every text matches", lambda known: [".*", "(?s).+", "%", "*"], _is_short,
           certain=False, says_nothing=True, best_counts=True),
    Attack("reversed", "its letters stand in the opposite order", _reversed, _is_short, certain=False, counts="full"),
    Attack("gold_beside_other", _SEVERAL, lambda known: [f"{known.right}\n{known.wrong}",
                                                         f"{known.wrong}\n{known.right}"],
           _has_other, counts="above_other"),
    Attack("gold_or_other", _SEVERAL, lambda known: _both_orders(known, [known.answer, known.other_answer]),
           _has_other, counts="above_other"),
    Attack("every_answer", "it lists the answers of all tasks", _every_answer, _is_short, counts="above_other"),
    Attack("every_label", "it names all classes", lambda known: _both_orders(known, list(known.pool.labels)), _is_short,
           counts="above_other"),
    Attack("every_option", "it names all options",
           lambda known: _both_orders(known, list(dict.fromkeys(_OPTION.findall(known.task.text))))),
    Attack("number_list", f"it lists the numbers from 0 to {_LARGEST}", _number_list, _is_whole),
    Attack("number_inside", "it is another number", _number_inside, _is_whole, best_counts=True),
    Attack("negated", "it denies the answer", _not, _is_short, counts="above_other"),
    Attack("denied_first", "it gives another answer", lambda known: f"It is not {known.answer}.\n{known.wrong}",
           _has_other, certain=False, counts="above_other"),
    Attack("denied_last", "it gives another answer", lambda known: f"{known.wrong}\nIt is not {known.answer}",
           _has_other, certain=False, counts="above_other"),
    Attack("every_source", "it cites the documents of all tasks", _every_source, _cites, counts="full"),
    Attack("sources_alone", "it cites what gold cites, and answers nothing", lambda known: known.declare(""), _cites),
)  # fmt: skip
