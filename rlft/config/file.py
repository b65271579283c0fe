"""Reads a config from a YAML file and `--set` overrides.

What is wrong is told with the key that it is about: values that no run could store, and pydantic's errors, one line
each, with the nearest known key.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from typing_extensions import TypeIs

from rlft.config import Config
from rlft.config.environment import read_named_specifications
from rlft.config.yaml_text import read_yaml
from rlft.errors import ConfigError
from rlft.files import why_no_file
from rlft.rewards.specification.grader import FIELDS
from rlft.texts.secrets import find_secrets, hide_secrets, redact, require

DEEPEST = 50  # levels of maps and lists
LARGEST = 2**63  # no integer of a database or of torch is as large


def wrong_values(content: Any, path: str = "", depth: int = 0) -> Iterator[str]:
    """Yield a sentence for each value that cannot be stored as JSON and come back as it was: `path: what is wrong`."""
    if depth > DEEPEST:
        yield f"{path:.80}…: more than {DEEPEST} maps and lists in each other; make it flatter"
    elif isinstance(content, Mapping):
        for key, value in content.items():
            place = f"{path}.{key!s:.80}" if path else f"{key!s:.80}"
            if not isinstance(key, str):
                yield f"{place}: the key {key!r:.80} is no text; put it in quotes"
            elif problem := _of_text(key):
                yield f"{place!a}: the key {problem}"
            else:
                yield from wrong_values(value, place, depth + 1)
    elif isinstance(content, list | tuple):
        for number, value in enumerate(content):
            yield from wrong_values(value, f"{path}[{number}]", depth + 1)
    elif problem := _of_value(content):
        yield f"{path or 'the whole config'}: {problem}"


def _of_value(value: Any) -> str | None:
    match value:
        case bool() | None:
            return None
        case str():
            return _of_text(value)
        case int():
            return None if abs(value) < LARGEST else "the number is larger than 2^63; no setting takes such a one"
        case float():
            return None if math.isfinite(value) else f"{value} is no number that can be computed with; write another"
        case date():  # a datetime is one, too
            return f"{value} is read as a date, of which a run stores the text; put it in quotes"
        case bytes():
            return "binary content cannot be stored with a run; put it into a file, and name that"
        case set():
            return "a set has no order, and cannot be stored with a run; write a list"
        case _:
            return f"a {type(value).__name__} cannot be stored with a run; write text, a number, a list or a map"


def _of_text(text: str) -> str | None:
    if "\0" in text:
        return "holds a null byte, which no path, database or tokenizer takes; remove it"
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "holds half of a surrogate pair, which UTF-8 cannot hold; write the character itself"
    return None


LARGEST_FILE = 1_000_000  # bytes
MOST_PROBLEMS = 20  # so many of them are shown
_OF_CONFIG = {"tasks", "environment", "environments", "reward", "policy", "scenarios"}  # none is in a specification
_NO_FILES: Mapping[str, Path] = {}
Checked = TypeVar("Checked", bound=BaseModel)


def load_config(path: Path, overrides: list[str] | None = None) -> Config:
    """Read the config at `path`, apply the overrides (`key.of.setting=value`) and check it.

    Raises ConfigError, which names the file, the key and what to do.
    """
    content, files = read_with_files(path, overrides)
    return check_config(content, where=str(path), files=files)


def read_with_files(
    path: Path, overrides: list[str] | None = None, *, example: str = "configs/demo.yaml"
) -> tuple[dict[str, Any], dict[str, Path]]:
    """Return what `read_settings` does, and the files of specifications as {setting: file}.

    Raises ConfigError as that does, and for a file that is a specification itself.
    """
    content = _read(path, overrides, example)
    if "criteria" in content and not _OF_CONFIG & content.keys():
        raise ConfigError(
            "this is the specification of a reward, and no config",
            where=str(path),
            fix=f"give a config that names it: reward: {{spec: {path.name}}}",
        )
    return content, read_named_specifications(content, path.parent)


def read_settings(
    path: Path, overrides: list[str] | None = None, *, example: str = "configs/demo.yaml"
) -> dict[str, Any]:
    """Return the mapping of a YAML file with the overrides, unchecked; `example` is named to one who has no file.

    What the files of specifications hold stands in place of their names. Raises ConfigError.
    """
    content = _read(path, overrides, example)
    read_named_specifications(content, path.parent)
    return content


def _read(path: Path, overrides: list[str] | None, example: str) -> dict[str, Any]:
    if problem := why_no_file(path):
        raise ConfigError(problem, where=str(path), fix=f"name a YAML file such as {example}")
    try:
        if (size := path.stat().st_size) > LARGEST_FILE:
            raise ConfigError(
                f"the file has {size:,} bytes, and a config at most {LARGEST_FILE:,}",
                where=str(path),
                fix="put data into a file of its own, and name that in the config",
            )
        content = read_yaml(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as cause:
        raise ConfigError(
            f"not readable as YAML: {redact(str(cause))}", where=str(path), fix="mend the file"
        ) from cause
    if not isinstance(content, dict):
        raise ConfigError("not a mapping of sections", where=str(path), fix=f"start from {example}")
    for override in overrides or []:
        apply_override(content, override)
    return content


def check_config(content: dict[str, Any], *, where: str, files: Mapping[str, Path] = _NO_FILES) -> Config:
    """Validate a mapping as a config. Raises ConfigError, which names `where` and lists every problem with its key.

    `files` are those that hold specifications, as {setting: file}.
    """
    return check_settings(Config, content, where=where, files=files)


def check_settings(
    kind: type[Checked],
    content: dict[str, Any],
    *,
    where: str,
    page: str = "docs/guide/settings.md",
    files: Mapping[str, Path] = _NO_FILES,
) -> Checked:
    """Validate a mapping as settings of this kind, which are described on `page`. Raises ConfigError.

    `files` are those that hold specifications, as {setting: file}.
    """
    every = f"every setting, with its unit and default, is in {page}"
    if wrong := list(wrong_values(content)):
        raise _refused(wrong, where, every)
    try:
        return kind.model_validate(content)
    except ValidationError as cause:
        errors = cause.errors()
        inside = sum(map(is_in_specification, errors))
        fields = f"every field of a specification is in {FIELDS}"
        fix = fields if inside == len(errors) else f"{every}; {fields}" if inside else every
        raise _refused([explained(each, kind, files) for each in errors], where, fix) from None


def _refused(problems: list[str], where: str, fix: str) -> ConfigError:
    shown = "\n".join(f"  {problem}" for problem in problems[:MOST_PROBLEMS])
    more = len(problems) - MOST_PROBLEMS
    return ConfigError(
        f"{len(problems)} setting(s) cannot be used:\n{shown}" + (f"\n  and {more} more" if more > 0 else ""),
        where=where,
        fix=fix,
    )


def check_variables(config: Config) -> None:
    """Raise ConfigError if an environment variable that a setting names is not set or holds an unusable address."""
    members = {f"environments.{name}.environment": member for name, member in config.environment.members().items()}
    for where, environment in (members or {"environment": config.environment}).items():
        require(environment.kwargs, f"{where}.kwargs")
    config.rollout.server.read_addresses()
    if config.other_model is not None:
        require(config.other_model.api_key, "controls.api_key")


def apply_override(content: dict[str, Any], override: str) -> None:
    """Set one override, `a.b.c=value`, in the mapping of a config; the value is YAML. Raises ConfigError."""
    key, separator, text = override.partition("=")
    if not separator or not all(key.split(".")):
        raise ConfigError(f"{redact(override)!r} is not key=value", where="--set", fix="write --set training.rounds=3")
    *sections, last = key.split(".")
    target = content
    for depth, section in enumerate(sections):
        inner = target.setdefault(section, {})
        if inner is None:
            inner = target[section] = {}
        if not isinstance(inner, dict):
            raise ConfigError(
                f"{'.'.join(sections[: depth + 1])} is not a section",
                where=f"--set {key}",
                fix="every section and setting is in docs/guide/settings.md",
            )
        target = inner
    try:
        target[last] = read_yaml(text)
    except ValueError as cause:
        raise ConfigError(
            f"the value is not readable as YAML: {cause}",
            where=f"--set {key}",
            fix="put it in quotes within the value",
        ) from cause


def holds_secret(override: str) -> bool:
    """Return whether an override, `a.b.c=value`, sets what looks like a secret, at whatever depth of its value."""
    content: dict[str, Any] = {}
    try:
        apply_override(content, override)
    except ConfigError:  # it is no override, so only its form can tell
        return redact(override) != override
    return bool(find_secrets(content))


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
