"""Reads a config from a YAML file and `--set` overrides; an error names the key that it is about."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from rlft.config import Config
from rlft.config.content import wrong_values
from rlft.config.specified import read_named_specifications
from rlft.config.yaml_text import read_yaml
from rlft.errors import ConfigError
from rlft.files import why_no_file
from rlft.secrets import find_secrets, hide_secrets, redact, require

LARGEST_FILE = 1_000_000  # bytes
MOST_PROBLEMS = 20  # so many of them are shown
Checked = TypeVar("Checked", bound=BaseModel)


def load_config(path: Path, overrides: list[str] | None = None) -> Config:
    """Read the config at `path`, apply the overrides (`key.of.setting=value`) and check it.

    Raises ConfigError, which names the file, the key and what to do.
    """
    return check_config(read_settings(path, overrides), where=str(path))


def read_settings(
    path: Path, overrides: list[str] | None = None, *, example: str = "configs/demo.yaml"
) -> dict[str, Any]:
    """Return the mapping of a YAML file with the overrides, unchecked; `example` is named to one who has no file.

    What the files of specifications hold stands in place of their names. Raises ConfigError.
    """
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
    read_named_specifications(content, path.parent)
    return content


def check_config(content: dict[str, Any], *, where: str) -> Config:
    """Validate a mapping as a config. Raises ConfigError, which names `where` and lists every problem with its key."""
    return check_settings(Config, content, where=where)


def check_settings(
    kind: type[Checked], content: dict[str, Any], *, where: str, page: str = "docs/guide/settings.md"
) -> Checked:
    """Validate a mapping as settings of this kind, which are described on `page`. Raises ConfigError."""
    if wrong := list(wrong_values(content)):
        raise _refused(wrong, where, page)
    try:
        return kind.model_validate(content)
    except ValidationError as cause:
        raise _refused([_explain(error, kind) for error in cause.errors()], where, page) from None


def _refused(problems: list[str], where: str, page: str) -> ConfigError:
    shown = "\n".join(f"  {problem}" for problem in problems[:MOST_PROBLEMS])
    more = len(problems) - MOST_PROBLEMS
    return ConfigError(
        f"{len(problems)} setting(s) cannot be used:\n{shown}" + (f"\n  and {more} more" if more > 0 else ""),
        where=where,
        fix=f"every setting, with its unit and default, is in {page}",
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


_PLAIN = {"missing": "it is missing and has no default", "model_type": "a section of settings belongs here"}


def _explain(error: Any, kind: type[BaseModel]) -> str:
    """Return one line for one of pydantic's errors.

    It has the key, what is wrong, and for an unknown name the nearest known one.
    """
    location = [f"{part:.80}" if isinstance(part, str) else str(part) for part in error["loc"]]
    key = ".".join(location) or "the whole config"
    message = _PLAIN.get(error["type"]) or str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        message = "unknown setting"
        if near := difflib.get_close_matches(location[-1], _fields(location[:-1], kind), n=1):
            message += f"; did you mean {'.'.join([*location[:-1], near[0]])}?"
    elif error["type"] not in ("value_error", "missing") and not isinstance(error.get("input"), dict):
        message += f", not {hide_secrets(error.get('input'))!r:.80}"
        if isinstance(error.get("input"), bool) and error["type"] in ("literal_error", "string_type"):
            message += f" (which YAML makes of {'yes, on and true' if error['input'] else 'no, off and false'})"
    return f"{key}: {message}"


def _fields(location: list[str], kind: type[BaseModel]) -> list[str]:
    """Return the names of the settings of the section at a path of keys; none if there is no such section.

    A key within a map of sections, or a place in a list of them, stays in that section.
    """
    section, inside = kind, False
    for part in location:
        if part not in section.model_fields:
            if inside:
                inside = False
                continue
            return []
        annotation = section.model_fields[part].annotation
        candidates = [annotation, *getattr(annotation, "__args__", ())]
        models = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
        if not models:
            return []
        section, inside = models[0], models[0] is not annotation
    return list(section.model_fields)
