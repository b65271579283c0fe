"""The prompt of a record, and the right answer by what people said of it, where those who said something agree.

What a program or a model said is nobody's word, and does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlft.config import UseConfig
from rlft.evaluation.gates import canonical_json, normalise_text
from rlft.tasks.fields import FieldError, find_field, to_json
from rlft.tasks.rows import to_messages
from rlft.tasks.use.records import Record, Said
from rlft.types import Message

PROMPT_FIELDS = ("messages", "prompt", "question", "text", "input", "query", "inputs")
"""The fields of the inputs that are tried in this order if the config names none."""


class NoQuestionError(ValueError):
    """A conversation that does not end with a question: the model went on after the result of a tool, say."""


def read_prompt(inputs: Any, field: str | None) -> tuple[tuple[Message, ...], dict[str, Any]]:
    """Return the prompt without system messages, and the other fields of the inputs.

    What the system says is left to the environment, which says it again. Raises FieldError if there is no prompt, and
    NoQuestionError if the last message is not the user's.
    """
    content = to_json(inputs, "inputs")
    name, value = _find(content, field)
    messages = tuple(message for message in to_messages(value, name) if message["role"] != "system")
    if not messages:
        raise FieldError(f"has nothing but system messages in {name!r}")
    if messages[-1]["role"] != "user":
        raise NoQuestionError(f"ends with a message of role {messages[-1]['role']}")
    others = {key: each for key, each in content.items() if key != name} if isinstance(content, Mapping) else {}
    return messages, others


def _find(content: Any, field: str | None) -> tuple[str, Any]:
    """Return the name and value of the prompt's field; inputs that are no object are the prompt themselves."""
    if not isinstance(content, Mapping):
        return "inputs", content
    if field is not None:
        return field, find_field(content, field)
    for name in PROMPT_FIELDS:
        if content.get(name) is not None:
            return name, content[name]
    raise FieldError(f"has no prompt: none of the fields {', '.join(PROMPT_FIELDS)}")


def answer_text(output: Any) -> str | None:
    """Return the text that a model answered; `None` if the output holds none in a known form.

    A text, messages (the last one that has content), an object with `messages`, `content` or `response`, and an answer
    in OpenAI's form are known.
    """
    if isinstance(output, str):
        return output
    if isinstance(output, list):
        found = (text for each in reversed(output) if (text := answer_text(each)) is not None)
        return next(found, None)
    if isinstance(output, Mapping):
        for name in ("messages", "choices", "message", "content", "text", "response", "answer"):
            if output.get(name) is not None:
                return answer_text(output[name])
    return None


_APPROVES, _DISAPPROVES = {"true", "yes"}, {"false", "no"}


class PeopleDisagreeError(ValueError):
    """People named different right answers, or one named an answer that another called wrong."""


@dataclass(frozen=True, slots=True)
class Gold:
    """A right answer, a JSON value; `None` if nobody has given one."""

    answer: Any


def gold_of(records: Sequence[Record], settings: UseConfig) -> Gold | None:
    """Return the right answer of a question that these records ask; `None` if nobody has said one.

    An expectation or a correction names it. An approval makes the answer that was given right, and the opposite wrong,
    if `settings.approval` names the feedback. Of what a person said twice the later word counts. Two answers are the
    same if they differ in case, white space or Unicode form alone; the first that was said is returned. Raises
    PeopleDisagreeError.
    """
    right: dict[str, tuple[int, Any]] = {}
    for said in _last_words(each for record in records for each in _answers(record, settings)):
        _note(right, said.value, said.time)
    wrong: set[str] = set()
    for record in records:
        given = answer_text(record.output)
        for said in _last_words(each for each in record.said if _is_approval(each, settings)) if given else ():
            verdict = _verdict(said.value)
            if verdict is True:
                _note(right, given, said.time)
            elif verdict is False:
                wrong.add(_key(given))
    if len(right) > 1 or wrong & right.keys():
        raise PeopleDisagreeError
    return next((Gold(answer) for _, answer in right.values()), None)


def kind_of_answer(answer: Any) -> str:
    """Return of which kind of JSON value an answer is: two kinds cannot both be right for one reward."""
    names = {bool: "truth value", int: "number", float: "number", str: "text", list: "list", dict: "object"}
    return names.get(type(answer), "nothing")


def has_feedback(record: Record, wanted: dict[str, Any]) -> bool:
    """Return whether people have given all the feedback that is wanted, {name: value}, by their last words."""
    last = {(said.name, _key(said.value)) for said in _last_words(s for s in record.said if s.kind == "feedback")}
    return all((name, _key(value)) in last for name, value in wanted.items())


def _answers(record: Record, settings: UseConfig) -> Iterator[Said]:
    names = {"expectation": settings.expectation, "feedback": settings.correction}
    for said in record.said:
        if said.name == names[said.kind] and _is_answer(said.value):
            yield said


def _is_approval(said: Said, settings: UseConfig) -> bool:
    return said.kind == "feedback" and said.name == settings.approval


def _last_words(said: Iterable[Said]) -> list[Said]:
    """Return what each person said last under each name, in the order of time; of the unknown all counts."""
    ordered = sorted(said, key=lambda each: (each.time, each.person, each.name))
    last = {(each.person or f"unknown {n}", each.kind, each.name): each for n, each in enumerate(ordered)}
    return sorted(last.values(), key=lambda each: (each.time, each.person, each.name))


def _note(right: dict[str, tuple[int, Any]], answer: Any, time: int) -> None:
    key = _key(answer)
    if key not in right or time < right[key][0]:
        right[key] = (time, to_json(answer, "answer"))


def _verdict(value: Any) -> bool | None:
    """Return whether a value approves or disapproves; `None` if it is neither."""
    text = str(value).strip().casefold()
    return True if text in _APPROVES else False if text in _DISAPPROVES else None


def _is_answer(value: Any) -> bool:
    """Return whether a value says anything that JSON can hold."""
    try:
        content = to_json(value, "answer")
    except FieldError:
        return False
    return content is not None and not (isinstance(content, str) and not content.strip())


def _key(value: Any) -> str:
    """Return a text that is equal for answers which are the same; an empty one for what JSON cannot hold."""
    try:
        return canonical_json(_plain(to_json(value, "answer")))
    except FieldError:
        return ""


def _plain(value: Any) -> Any:
    match value:
        case str():
            return normalise_text(value)
        case dict():
            return {key: _plain(each) for key, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case _:
            return value
