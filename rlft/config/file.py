"""Reads a config from a YAML file and `--set` overrides; an error names the key that it is about."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from rlft.config import Config
from rlft.config.content import wrong_values
from rlft.config.explained import explained, is_in_specification
from rlft.config.specified import read_named_specifications
from rlft.config.yaml_text import read_yaml
from rlft.errors import ConfigError
from rlft.files import why_no_file
from rlft.secrets import find_secrets, redact, require
from rlft.specification import FIELDS

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
