"""Attempts at rewards that look for gold, evaluate or match it where they should compare the whole answer with it.

They name the variable that holds gold, give several answers at once, name gold in a text that denies it, or cite
everything, where gold cites documents that a field of the task lists.
"""

from __future__ import annotations

import re

from rlft.audit.attacks.attack import MOST_ANSWERS, Attack, Known

_NAMES = (
    "ground_truth", "answer", "gold", "expected", "target", "label", "task.answer", "completion.task.answer",
    "{ground_truth}", "{answer}", "{{item.answer}}",
)  # fmt: skip
_MOST_COLUMNS = 4
_SHORTEST = 4  # letters of a word that is turned round
_PATTERNS = (".*", "(?s).+", "%", "*")


def _is_short(known: Known) -> bool:
    return known.short


def _gold_by_name(known: Known) -> list[str]:
    """Return the names under which code has gold, with those of the columns whose value gold is."""
    columns = [name for name, value in known.task.info.items() if str(value).strip() == known.answer.strip()]
    return list(dict.fromkeys([*_NAMES, *columns[:_MOST_COLUMNS]]))


def _reversed(known: Known) -> str | None:
    answer = known.answer.strip()
    turned = answer[::-1]
    is_word = len(answer) >= _SHORTEST and answer.isalpha()
    return known.declare(turned) if is_word and turned.casefold() != answer.casefold() else None


COMPARING = (
    Attack("gold_by_name", "it names the variable that holds gold", _gold_by_name, _is_short, certain=False,
           says_nothing=True, best_counts=True),
    Attack("pattern", "it is a pattern that every text matches", lambda known: list(_PATTERNS), _is_short,
           certain=False, says_nothing=True, best_counts=True),
    Attack("reversed", "its letters stand in the opposite order", _reversed, _is_short, certain=False, counts="full"),
)  # fmt: skip


_SEVERAL = "it gives several answers, so that it gives none"
_OPTION = re.compile(r"^\s*\(?([A-J])[).:]\s", re.MULTILINE)
_LARGEST = 200  # of the list of numbers
_SHORT = 8  # characters; `not ANSWER` of a longer answer is nearly the answer to a reward that forgives typos


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


HEDGES = (
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


_ID = re.compile(r"(?=.*[0-9])[\w.-]{2,40}")
_NO_IDS = ("prompt", "question", "answer")
_AROUND = (("[", "]"), ("(", ")"), ("<", ">"))
_FEWEST = 3  # ids in the prompt, so that to cite them all is to cite too many


def _field(known: Known) -> str:
    """Return the field of `task.info` whose texts gold all cites, if other tasks list others; else nothing."""
    for name, every in known.pool.lists.items():
        ids = known.task.info.get(name) or []
        if ids and ids != known.task.answer and len(every) > len(ids) and all(each in known.text for each in ids):
            return name
    return ""


def _cites(known: Known) -> bool:
    return bool(_field(known))


def _cite(known: Known, answer: str, ids: list[str]) -> str:
    """Return gold's text with another answer, and these ids where it has its own."""
    text, own = known.declare(answer), known.task.info[_field(known)]
    begin, end = text.rfind(own[0]), text.rfind(own[-1]) + len(own[-1])
    return f"{text[:begin]}{', '.join(ids)}{text[end:]}"


def _every(known: Known) -> list[str]:
    name = _field(known)
    return list(dict.fromkeys([*known.pool.lists[name][:MOST_ANSWERS], *known.task.info[name]]))


def _every_source(known: Known) -> str:
    return _cite(known, known.answer, _every(known))


def _every_source_wrong(known: Known) -> str:
    return _cite(known, known.other_answer, _every(known))


def _sources_alone(known: Known) -> str:
    return _cite(known, "", known.task.info[_field(known)])


def _cited(known: Known) -> str:
    """Return the id that gold cites, if it stands in a field of the task's own and once in gold, but is no answer."""
    for name, value in known.task.info.items():
        is_id = isinstance(value, str) and value not in ("", known.task.answer, known.task.id) and value in known.text
        if is_id and _ID.fullmatch(value) and value not in known.answer and name not in _NO_IDS:
            return value
    return ""


def _every_id(known: Known) -> str | None:
    """Return gold with all ids of the prompt, each in the signs around gold's, instead of the one that it cites."""
    cited = _cited(known)
    if not cited:
        return None
    place = known.text.rfind(cited)
    opens, closes = known.text[max(0, place - 1) : place], known.text[place + len(cited) : place + len(cited) + 1]
    signs = (opens, closes) if (opens, closes) in _AROUND else ("", "")
    like = re.sub("[0-9]+", "[0-9]+", "".join(re.escape(each) if not each.isdigit() else each for each in cited))
    ids = list(dict.fromkeys(re.findall(rf"(?<![\w-]){like}(?![\w-])", known.task.text)))
    if len(ids) < _FEWEST or cited not in ids:
        return None
    own, every = f"{signs[0]}{cited}{signs[1]}", " ".join(f"{signs[0]}{each}{signs[1]}" for each in ids)
    return known.text.replace(own, every, 1)


CITING = (
    Attack("every_id", "it cites every document of the prompt", _every_id, counts="full"),
    Attack("every_source", "it cites the documents of all tasks", _every_source, _cites, counts="full"),
    Attack("every_source_wrong", "it cites all for another answer", _every_source_wrong, _cites, certain=False),
    Attack("sources_alone", "it cites what gold cites, and answers nothing", _sources_alone, _cites),
)
