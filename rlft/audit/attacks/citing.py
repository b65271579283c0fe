"""Attempts that cite everything, where gold cites documents that a field of the task lists."""

from __future__ import annotations

from rlft.audit.attacks.kinds import Attack
from rlft.audit.attacks.known import MOST_ANSWERS, Known


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


ATTACKS = (
    Attack("every_source", "it cites the documents of all tasks", _every_source, _cites, counts="full"),
    Attack("every_source_wrong", "it cites all for another answer", _every_source_wrong, _cites, certain=False),
    Attack("sources_alone", "it cites what gold cites, and answers nothing", _sources_alone, _cites),
)
