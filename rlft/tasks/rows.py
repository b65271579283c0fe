"""Makes a typed task of a row: finds the fields of prompt and answer, and keeps the whole row as `info`.

Rows in TRL's form (`prompt` and free columns), verl's (`prompt, reward_model{ground_truth}, extra_info`) and
verifiers' v0 (`prompt` or `question`, `answer`, `info`) load as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlft.config import SourceConfig
from rlft.evaluation.gates import digest, prompt_key, question_key
from rlft.messages import MessageError, as_messages
from rlft.tasks.fields import FieldError, find_field, format_template, is_template, template_values, to_json
from rlft.tasks.sources import RawRow
from rlft.types import Message, Split, Task

# The fields that are tried in this order if the config names none.
PROMPT_FIELDS = ("prompt", "question", "text")
ANSWER_FIELDS = ("answer", "ground_truth", "reward_model.ground_truth")
LONGEST_PROMPT = 10_000_000
"""Characters. The longest contexts of models are some two million tokens of about four characters."""


def make_task(raw: RawRow, fields: SourceConfig, *, environment: str, split: Split | None = None) -> Task:
    """Make the task of a row. Raises `FieldError` with the reason if the row is unusable.

    Without a configured `id` the id is a hash of the content; without a configured `group` the group is the task's
    `question_key`: a hash of what the row asks, whatever template it is shown in. `split` is what the row's own `split`
    column says; with `None` it is `train` until tasks are dealt.
    """
    row = {str(name): to_json(value, str(name)) for name, value in raw.row.items()}
    _refuse_nan(raw.row, fields)
    prompt_field, prompt_value = _read(row, fields.prompt, PROMPT_FIELDS)
    if prompt_field is None:
        raise FieldError(f"has no prompt: none of the fields {', '.join(PROMPT_FIELDS)} (it has: {', '.join(row)})")
    prompt = to_messages(prompt_value, prompt_field)
    answer_field, answer = _read(row, fields.answer, ANSWER_FIELDS)
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


def _refuse_nan(row: Mapping[Any, Any], fields: SourceConfig) -> None:
    """Raise `FieldError` if the right answer is NaN: not a missing one, which is null, but a number gone wrong."""
    names = (fields.answer,) if fields.answer else ANSWER_FIELDS
    for name in names:
        value = row.get(name)
        if isinstance(value, float | np.floating) and math.isnan(value):
            raise FieldError(f"has NaN as its answer in {name!r}; write the answer, or null where there is none")


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
    if (length := sum(len(message["content"]) for message in messages)) > LONGEST_PROMPT:
        raise FieldError(
            f"has a prompt of {length:,} characters in {field!r}, and no model reads so many; at most "
            f"{LONGEST_PROMPT:,} are taken"
        )
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
