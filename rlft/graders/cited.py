"""Reads an answer and its sources from the last two lines of an attempt, `Answer: ...` and `Sources: ...`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rlft.types import Trajectory

_ANSWER = re.compile(r"\W*answer\W*:(.*)", re.IGNORECASE)
_SOURCES = re.compile(r"\W*sources?\W*:(.*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Declared:
    """Holds what an attempt declares: the answer as it was written, and the ids of the documents it cites."""

    text: str
    sources: tuple[str, ...]


def declared_answer(completion: Trajectory) -> Declared | None:
    """Return the answer and the sources in the last two lines of the last message, or `None` without this form.

    The last message must be the assistant's, complete and without tool calls. If a further line begins with Answer: or
    Sources:, or the answer's line has a second one, there are two declarations, and the result is `None`.
    """
    if not completion or completion.truncated:
        return None
    last = completion[-1]
    if last["role"] != "assistant" or last.get("tool_calls"):
        return None
    lines = [line.strip() for line in last["content"].splitlines() if line.strip()]
    answers = [match for line in lines if (match := _ANSWER.fullmatch(line))]
    sources = [match for line in lines if (match := _SOURCES.fullmatch(line))]
    if len(answers) != 1 or len(sources) != 1 or [answers[0].string, sources[0].string] != lines[-2:]:
        return None
    text = answers[0].group(1).strip(" \t*_`")
    if not text or re.search(r"\b(?:answer|sources?)\W*:", text, re.IGNORECASE):
        return None
    cited = (each.strip("[]{}<>\"'`*.") for each in re.split(r"[\s,;]+", sources[0].group(1)))
    return Declared(text, tuple(dict.fromkeys(filter(None, cited))))
