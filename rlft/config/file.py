"""Reads a config from a YAML file and `--set` overrides; an error names the key that it is about."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from rlft.config import Config
from rlft.errors import ConfigError
from rlft.secrets import hide_secrets, redact, require


class _Loader(yaml.SafeLoader):
    """Loads YAML, but reads `1e-4` as a number, which YAML 1.1 takes for text, and refuses repeated keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        # A merge key (`<<`) may be repeated, and may bring keys that the mapping overrides.
        written = [key for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        keys = [self.construct_object(key, deep=True) for key in written]  # type: ignore[reportUnknownMemberType]
        repeated = {key for key in keys if keys.count(key) > 1}
        if repeated:
            raise yaml.constructor.ConstructorError(None, None, f"key given twice: {repeated}", node.start_mark)
        return super().construct_mapping(node, deep)


# A copy, since `add_implicit_resolver` would otherwise add to the lists of SafeLoader itself.
_Loader.yaml_implicit_resolvers = {key: list(value) for key, value in yaml.SafeLoader.yaml_implicit_resolvers.items()}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def load_config(path: Path, overrides: list[str] | None = None) -> Config:
    """Read the config at `path`, apply the overrides (`key.of.setting=value`) and check it.

    Raises ConfigError, which names the file, the key and what to do.
    """
    if not path.is_file():
        raise ConfigError("no such file", where=str(path), fix="name a YAML file such as configs/demo.yaml")
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # a SafeLoader
    except (yaml.YAMLError, ValueError, OSError) as cause:  # ValueError: not UTF-8, or a date such as 2026-13-01
        raise ConfigError(
            f"not readable as YAML: {yaml_problem(cause)}", where=str(path), fix="mend the file"
        ) from cause
    if not isinstance(content, dict):
        raise ConfigError("not a mapping of sections", where=str(path), fix="start from configs/demo.yaml")
    for override in overrides or []:
        _apply(content, override)
    return check_config(content, where=str(path))


def check_config(content: dict[str, Any], *, where: str) -> Config:
    """Validate a mapping as a config. Raises ConfigError, which names `where` and lists every problem with its key."""
    try:
        return Config.model_validate(content)
    except ValidationError as cause:
        problems = "\n".join(f"  {_explain(error)}" for error in cause.errors())
        raise ConfigError(
            f"{cause.error_count()} setting(s) cannot be used:\n{problems}",
            where=where,
            fix="every setting, with its unit and default, is in docs/guide/settings.md",
        ) from None


def check_variables(config: Config) -> None:
    """Raise ConfigError if an environment variable that a setting names is not set or holds an unusable address."""
    require(config.environment.kwargs, "environment.kwargs")
    config.rollout.server.read_addresses()


def _apply(content: dict[str, Any], override: str) -> None:
    """Set one override, `a.b.c=value`, in the mapping; the value is read as YAML. Raises ConfigError."""
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
        target[last] = yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError) as cause:
        raise ConfigError(
            f"the value is not readable as YAML: {yaml_problem(cause)}",
            where=f"--set {key}",
            fix="put it in quotes within the value",
        ) from cause


def yaml_problem(cause: Exception) -> str:
    """Say what is wrong with a YAML text and where, without the line itself, which may hold a secret."""
    if isinstance(cause, yaml.MarkedYAMLError) and cause.problem_mark:
        mark = cause.problem_mark
        return f"{cause.problem}, line {mark.line + 1}, column {mark.column + 1}"
    return redact(str(cause))


_PLAIN = {"missing": "it is missing and has no default", "model_type": "a section of settings belongs here"}


def _explain(error: Any) -> str:
    """One line for one of pydantic's errors: the key, what is wrong, and the nearest known name for an unknown one."""
    location = [str(part) for part in error["loc"]]
    key = ".".join(location) or "the whole config"
    message = _PLAIN.get(error["type"]) or str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        message = "unknown setting"
        if near := difflib.get_close_matches(location[-1], _fields(location[:-1]), n=1):
            message += f"; did you mean {'.'.join([*location[:-1], near[0]])}?"
    elif error["type"] not in ("value_error", "missing") and not isinstance(error.get("input"), dict):
        message += f", not {hide_secrets(error.get('input'))!r}"
    return f"{key}: {message}"


def _fields(location: list[str]) -> list[str]:
    """Names of the settings of the section at a path of keys; none if there is no such section."""
    section: type[BaseModel] = Config
    for part in location:
        annotation = section.model_fields[part].annotation if part in section.model_fields else None
        candidates = [annotation, *getattr(annotation, "__args__", ())]
        models = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
        if not models:
            return []
        section = models[0]
    return list(section.model_fields)
