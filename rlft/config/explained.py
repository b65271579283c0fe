"""Says what is wrong with settings: one line for each of pydantic's errors, with its key and the nearest known one."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel
from typing_extensions import TypeIs

from rlft.secrets import hide_secrets

_PLAIN = {
    "missing": "it is missing and has no default",
    "model_type": "a section of settings belongs here",
    "union_tag_not_found": "its `type` is missing, which says what it is",
}
_SHOWN = 3  # so many of several settings are named
_WITHOUT_VALUE = ("value_error", "missing", "union_tag_not_found")
Location = Sequence[str]


def explained(error: Any, kind: type[BaseModel], files: Mapping[str, Path]) -> str:
    """Return one line for one of pydantic's errors with settings of this kind.

    It has the key, what is wrong, and for an unknown name the nearest known one, or the settings in sections that are
    called just so. `files` are those that hold the
    settings `reward.spec`.
    """
    location = [f"{part:.80}" if isinstance(part, str) else str(part) for part in error["loc"]]
    message = _PLAIN.get(error["type"]) or str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        message = "unknown setting"
        if len(location) == 1 and (inside := _in_sections(location[0], kind)):
            message += f"; did you mean {' or '.join(inside[:_SHOWN])}?"
        elif near := difflib.get_close_matches(location[-1], _fields(location[:-1], kind), n=1):
            depth = _depth(location) if ".".join(location[: _depth(location)]) in files else 0
            message += f"; did you mean {'.'.join([*location[depth:-1], near[0]])}?"
    elif error["type"] == "union_tag_invalid":
        message = _no_type(error["ctx"])
    elif error["type"] not in _WITHOUT_VALUE and not isinstance(error.get("input"), dict):
        message += f", not {hide_secrets(error.get('input'))!r:.80}"
        if isinstance(error.get("input"), bool) and error["type"] in ("literal_error", "string_type"):
            message += f" (which YAML makes of {'yes, on and true' if error['input'] else 'no, off and false'})"
    return f"{_key(location, files)}: {message}"


def is_in_specification(error: Any) -> bool:
    """Return whether one of pydantic's errors is about a specification, the setting `reward.spec` of some section."""
    return bool(_depth(list(map(str, error["loc"]))))


def _no_type(context: Mapping[str, Any]) -> str:
    """Return what is wrong where a `type` is none of those that there are."""
    known = [each.strip(" '") for each in str(context["expected_tags"]).split(",")]
    near = difflib.get_close_matches(str(context["tag"]), known, n=1)
    meant = f"; did you mean {near[0]}?" if near else f": it is one of {', '.join(known)}"
    return f"there is no type {str(context['tag'])!r:.80}{meant}"


def _depth(location: Location) -> int:
    """Return how many parts of a location name the setting `reward.spec`; 0 where it is elsewhere."""
    return next((place + 2 for place, pair in enumerate(pairwise(location)) if pair == ("reward", "spec")), 0)


def _key(location: Location, files: Mapping[str, Path]) -> str:
    """Return a location as a key; within a specification from its file on, where cases are counted from 1."""
    depth = _depth(location)
    setting, rest = ".".join(location[:depth]), list(location[depth:])
    is_case = bool(depth) and len(rest) > 1 and rest[0] == "cases" and rest[1].isdigit()
    if not is_case and setting not in files:
        return ".".join(location) or "the whole config"
    case = f"case {int(rest[1]) + 1}" if is_case else ""
    parts = (str(files.get(setting, setting)), case, ".".join(rest[2:] if is_case else rest))
    return ": ".join(filter(None, parts))


def _fields(location: Location, kind: type[BaseModel]) -> list[str]:
    """Return the names of the settings of the section at a path of keys; none if there is no such section.

    A key within a map of sections, or a place in a list of them, stays in that section. The `type` of one of several
    kinds of section, which pydantic adds to the path, leads to that kind.
    """
    section, inside = kind, False
    kinds: list[type[BaseModel]] = [kind]
    for part in location:
        if typed := next((each for each in kinds if part in _types(each)), None):
            section, kinds, inside = typed, [typed], False
            continue
        if part not in section.model_fields:
            if inside:
                inside = False
                continue
            return []
        annotation = section.model_fields[part].annotation
        kinds = [each for each in (annotation, *_within(annotation)) if _is_section(each)]
        if not kinds:
            return []
        section, inside = kinds[0], kinds[0] is not annotation
    return list(section.model_fields)


def _in_sections(name: str, kind: type[BaseModel]) -> list[str]:
    """Return the keys of all settings of this name in sections, those of the outer ones first."""
    return sorted(dict.fromkeys(_called(name, kind)), key=lambda key: key.count("."))


def _called(name: str, kind: type[BaseModel], *path: str) -> Iterator[str]:
    """Yield the keys of settings with this name in the sections of a section at `path`, maps and lists left out."""
    for field, info in kind.model_fields.items():
        if field == name:
            yield ".".join([*path, field])
        of_union = get_args(info.annotation) if get_origin(info.annotation) in (Union, UnionType) else ()
        for inner in filter(_is_section, (info.annotation, *of_union)):
            yield from _called(name, inner, *path, field)


def _within(annotation: Any) -> list[Any]:
    """Return the types that an annotation is made of, such as those of a union or of the values of a map."""
    inner = get_args(annotation)
    return [*inner, *(each for one in inner if not _is_section(one) for each in _within(one))]


def _is_section(kind: Any) -> TypeIs[type[BaseModel]]:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _types(kind: type[BaseModel]) -> tuple[Any, ...]:
    """Return the values that the field `type` of a kind of section takes."""
    field = kind.model_fields.get("type")
    return () if field is None else get_args(field.annotation)
