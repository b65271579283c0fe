"""Makes a typed task of a row: finds the fields of prompt and answer, and keeps the whole row as `info`.

Rows in TRL's form (`prompt` and free columns), verl's (`prompt, reward_model{ground_truth}, extra_info`) and
verifiers' v0 (`prompt` or `question`, `answer`, `info`) load as they are. A field is found by its name, or formatted by
a template. A `FieldError` says why one row is unusable; ingestion makes a `BadRow` with its place of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from difflib import get_close_matches
from string import Formatter
from typing import Any

import numpy as np

from rlft.config import SourceConfig
from rlft.errors import TaskError
from rlft.evaluation.gates import digest, prompt_key, question_key
from rlft.messages import MessageError, as_messages
from rlft.tasks.sources import RawRow
from rlft.types import SPLITS, Message, Split, Task

# The fields that are tried in this order if the config names none.
PROMPT_FIELDS = ("prompt", "question", "text")
ANSWER_FIELDS = ("answer", "ground_truth", "reward_model.ground_truth")


def make_task(raw: RawRow, fields: SourceConfig, *, environment: str, split: Split | None = None) -> Task:
    """Make the task of a row. Raises `FieldError` with the reason if the row is unusable.

    Without a configured `id` the id is a hash of the content; without a configured `group` the group is the task's
    `question_key`: a hash of what the row asks, whatever template it is shown in. `split` is what the row's own `split`
    column says; with `None` it is `train` until tasks are dealt.
    """
    row = {str(name): to_json(value, str(name)) for name, value in raw.row.items()}
    prompt_field, prompt_value = _read(row, fields.prompt, PROMPT_FIELDS)
    if prompt_field is None:
        raise FieldError(f"has no prompt: none of the fields {', '.join(PROMPT_FIELDS)} (it has: {', '.join(row)})")
    prompt = to_messages(prompt_value, prompt_field)
    answer_field, answer = _read(row, fields.answer, ANSWER_FIELDS)
    if answer is None and answer_field and not is_template(answer_field) and _is_nan(find_field(raw.row, answer_field)):
        raise FieldError(f"has NaN in {answer_field!r}, which is no answer")
    question = _question(row, prompt_field, prompt)
    read = {prompt_field, answer_field, fields.id, fields.group, "split" if split else None}
    return Task(
        id=_explicit_text(row, fields.id, "id") if fields.id else content_id(prompt, answer, environment),
        environment=environment,
        prompt=prompt,
        answer=answer,
        info=raw.info if raw.info is not None else _whole(row, read),
        split=split or "train",
        group=_explicit_text(row, fields.group, "group") if fields.group else question,
        question_key=question,
    )


def own_split(row: dict[str, Any]) -> Split:
    """Return the split that a row's own `split` column names. Raises `FieldError` if it is none of `SPLITS`."""
    value = row.get("split")
    for name in SPLITS:
        if name == value:
            return name
    raise FieldError(
        f"has {value!r:.80} in the column `split`, which names one of {', '.join(SPLITS)}; rename the column if it is "
        "about something else"
    )


def split_column_decides(rows: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether the `split` column decides: if any row has something there, so that none is trained on by mistake.

    What is no name of a split is refused with its row (`own_split`).
    """
    return any(str(row["split"]).strip() for row in rows if row.get("split") is not None)


def to_messages(value: Any, field: str) -> tuple[Message, ...]:
    """Return a prompt as messages; text becomes one of role `user`. Raises `FieldError` if it is empty or neither."""
    if isinstance(value, str):
        value = [{"role": "user", "content": value}]
    if value is not None and not isinstance(value, list):
        raise FieldError(f"has a {type(value).__name__} as prompt in {field!r}; text or a list of messages is needed")
    try:
        messages = as_messages(value or [])
    except MessageError as error:
        raise FieldError(f"has a prompt in {field!r} that cannot be read: {error}") from error
    asked = [message for message in messages if message["role"] != "system"] or messages
    if not any(message["content"].strip() for message in asked):
        raise FieldError(f"has an empty prompt in {field!r}")
    return messages


def content_id(prompt: Sequence[Message], answer: Any, environment: str) -> str:
    """Return the id of a task by its content: 16 hexadecimal digits, which do not depend on the row's place."""
    return digest([environment, list(prompt), answer])


def _question(row: dict[str, Any], field: str, prompt: Sequence[Message]) -> str:
    """Return what a row asks, as a hash: the fields that the template of the prompt names, or the prompt's column.

    The words of the template around them are left out, so that another wording makes no other question.
    """
    fields = template_values(row, field) if is_template(field) else []
    return question_key(fields) if fields else prompt_key(prompt)


def _read(row: dict[str, Any], configured: str | None, defaults: Sequence[str]) -> tuple[str | None, Any]:
    """Return the field that was read, and its value: the configured one, else the first default that is not null.

    A blank text, such as an empty cell of a CSV file, is null: as an answer it would pay for saying nothing. If all
    defaults that the row has are null, it is the first of them; if it has none, `None`.
    """
    if configured is not None:
        value = format_template(row, configured) if is_template(configured) else find_field(row, configured)
        return configured, None if _is_blank(value) else value
    found: tuple[str | None, Any] = (None, None)
    for name in defaults:
        try:
            value = find_field(row, name)
        except FieldError:
            continue
        if value is not None and not _is_blank(value):
            return name, value
        if found[0] is None:
            found = (name, None)
    return found


def _is_blank(value: Any) -> bool:
    return isinstance(value, str) and not value.strip()


def _is_nan(value: Any) -> bool:
    return isinstance(value, float | np.floating) and math.isnan(value)


def _explicit_text(row: dict[str, Any], field: str, what: str) -> str:
    """Return the configured id or group of a row as text. Raises `FieldError` if it is neither text nor a number."""
    value = find_field(row, field)
    if isinstance(value, bool) or not isinstance(value, str | int | float) or not str(value).strip():
        raise FieldError(f"has no usable {what} in field {field!r}: {value!r:.80}; text or a number is needed")
    return str(value)


def _whole(row: dict[str, Any], read: set[str | None]) -> dict[str, Any]:
    """Return all columns of a row; the keys of an `info` object (verifiers' form) become columns too.

    A key that is also a column in `read` takes that column's place, because the task has the column as its prompt or
    answer, say. Raises `FieldError` for a key that is any other column: nobody could tell which of the two is meant.
    """
    inner = row.get("info")
    if not isinstance(inner, dict) or "info" in read:
        return row
    columns = {name: value for name, value in row.items() if name != "info"}
    clash = sorted((set(columns) - read) & set(inner))
    if clash:
        raise FieldError(f"has {', '.join(clash)} both as a column and inside `info`; rename one")
    return {**columns, **inner}


class FieldError(ValueError):
    """A row that is unusable; the message says why, in words that follow the place of the row."""


def is_template(field: str) -> bool:
    """Return whether a configured field is a template (`'{question}\\nAnswer:'`) and not the name of a column."""
    return "{" in field or "}" in field


def check_template(field: str | None, setting: str) -> None:
    """Raise `TaskError` if a configured template cannot be parsed; `setting` is its name in the config."""
    try:
        list(Formatter().parse(field or ""))
    except ValueError as error:
        raise TaskError(
            f"{field!r} is not a template: {error}", where=setting, fix="write {{ and }} for braces that stay braces"
        ) from error


def find_field(row: Mapping[str, Any], name: str) -> Any:
    """Return the value of a column, or of a nested field by its path (`reward_model.ground_truth`).

    Raises `FieldError`, which lists the fields that the row has, if it does not have this one.
    """
    if name in row:
        return row[name]
    value: Any = row
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise FieldError(f"has no field {name!r} ({_fields(row, name)})")
        value = value[part]
    return value


def _fields(row: Mapping[str, Any], name: str) -> str:
    """Return the fields that a row has instead, and the one that is probably meant."""
    inner = [f"{outer}.{key}" for outer, value in row.items() if isinstance(value, Mapping) for key in value]
    near = get_close_matches(name, [*map(str, row), *inner], n=1)
    has = f"it has: {', '.join(map(str, row)) or 'nothing'}"
    return f"{has}; did you mean {near[0]}?" if near else has


class _RowFormatter(Formatter):
    """Formats as `str.format` does, with `{field}` and `{field[key]}`; lists and objects become JSON text."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        try:
            value, used = super().get_field(field_name, args, kwargs)
        except (LookupError, AttributeError, TypeError, ValueError) as error:
            raise FieldError(
                f"has no field {{{field_name}}} for the template ({_fields(kwargs, field_name)})"
            ) from error
        if value is None:
            raise FieldError(f"has nothing in field {{{field_name}}} of the template")
        return (json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value), str(used)


def format_template(row: Mapping[str, Any], template: str) -> str:
    """Fill a template with the fields of a row of JSON values.

    Raises `FieldError` if the template names a field that the row does not have, or that is null there.
    """
    try:
        return _RowFormatter().vformat(template, (), row)
    except FieldError:
        raise
    except (ValueError, TypeError) as error:
        raise FieldError(f"does not fit the template: {error}") from error


def template_values(row: Mapping[str, Any], template: str) -> list[str]:
    """Return the values of the fields that a template names, as text and in the order of their names, each once.

    Raises `FieldError` as `format_template` does.
    """
    formatter = _RowFormatter()
    names = sorted({name for _, name, _, _ in formatter.parse(template) if name is not None})
    return [str(formatter.get_field(name, (), row)[0]) for name in names]


def to_json(value: Any, name: str) -> Any:
    """Return a value as plain JSON: arrays become lists, dates ISO strings, NaN `None`, decimals and keys text.

    `name` is the column, for the message. Raises `FieldError` for what JSON cannot hold: bytes, infinities, lone
    surrogates.
    """
    match value:
        case None | bool():
            return value
        case str():
            return _valid_text(value, name)
        case np.datetime64():
            return None if np.isnat(value) else str(value)
        case np.generic() | np.ndarray():
            return to_json(value.tolist(), name)
        case int():
            return value
        case float():
            if math.isinf(value):
                raise FieldError(f"has {value} in field {name!r}, which JSON cannot hold")
            return None if math.isnan(value) else value
        case Mapping():
            return {_valid_text(str(key), name): to_json(item, name) for key, item in value.items()}
        case list() | tuple():
            return [to_json(item, name) for item in value]
        case datetime() | date() | time():
            return None if value != value else value.isoformat()  # pandas' NaT is a datetime that differs from itself
        case Decimal():
            return str(value) if value.is_finite() else None
        case _:
            raise FieldError(f"has a {type(value).__name__} in field {name!r}, which JSON cannot hold: drop the column")


def _valid_text(text: str, name: str) -> str:
    """Return the text itself. Raises `FieldError` if it has a lone surrogate, which UTF-8 cannot hold."""
    try:
        if not text.isascii():  # checked first, as most text is ASCII and need not be encoded
            text.encode()
    except UnicodeEncodeError as error:
        raise FieldError(f"has half a surrogate pair in field {name!r}: the text was cut inside a character") from error
    return text
