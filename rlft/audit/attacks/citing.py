"""Attempts that cite everything, where gold cites documents that a field of the task lists."""

from __future__ import annotations

import re

from rlft.audit.attacks.kinds import Attack
from rlft.audit.attacks.known import Known
from rlft.audit.attacks.pool import MOST_ANSWERS

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


ATTACKS = (
    Attack("every_id", "it cites every document of the prompt", _every_id, counts="full"),
    Attack("every_source", "it cites the documents of all tasks", _every_source, _cites, counts="full"),
    Attack("every_source_wrong", "it cites all for another answer", _every_source_wrong, _cites, certain=False),
    Attack("sources_alone", "it cites what gold cites, and answers nothing", _sources_alone, _cites),
)
