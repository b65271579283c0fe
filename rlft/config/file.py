"""Reads a config, or a suite, from a YAML file and `--set` overrides.

What is wrong is told with the key that it is about: pydantic's errors, one line each, with the nearest known key. A
reward's specification in a file of its own replaces the file's name when a config is read, so that a stored config
needs no file; and as it may come from somebody else, it may do only what the config allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from rlft.config.evaluation import AttemptsConfig
from rlft.config.experiment import Config
from rlft.config.policy import LoadedModel
from rlft.config.rollout import SampledConfig
from rlft.config.suite import ScenarioConfig, SuiteConfig, SuiteSampling, SuiteSection
from rlft.config.yaml_text import read_yaml
from rlft.errors import ConfigError
from rlft.files import why_no_file
from rlft.rewards.specification.grader import FIELDS
from rlft.texts.secrets import find_secrets, hide_secrets, redact, require
from rlft.types import Split

LARGEST_FILE = 1_000_000  # bytes
MOST_PROBLEMS = 20  # so many of them are shown
OWN = "own"  # the scenario of a config that names none
_OF_CONFIG = {"tasks", "environment", "environments", "reward", "policy", "scenarios"}  # none is in a specification
_PAGE, _PAGE_OF_SUITES = "docs/guide/settings.md", "docs/guide/evaluation.md"
_EXAMPLE_OF_SUITES = "configs/suites/demo.yaml"
Checked = TypeVar("Checked", bound=BaseModel)


def load_config(path: Path, overrides: list[str] | None = None) -> Config:
    """Read the config at `path`, apply the overrides (`key.of.setting=value`) and check it.

    Raises ConfigError, which names the file, the key and what to do.
    """
    return check_config(read_settings(path, overrides), where=str(path))


def load_suite(path: Path, overrides: list[str] | None = None) -> SuiteConfig:
    """Read the suite at `path`, apply the overrides (`key.of.setting=value`) and check it.

    A file with `scenarios` is a suite of its own, one with tasks or an environment a config. Raises ConfigError, which
    names the file, the key and what to do.
    """
    content = read_settings(path, overrides, example=_EXAMPLE_OF_SUITES)
    if "scenarios" in content:
        return check_settings(SuiteConfig, content, where=str(path), page=_PAGE_OF_SUITES)
    if not {"tasks", "environment", "environments"} & content.keys():
        raise ConfigError(
            "this is neither a suite (it has no scenarios) nor a config (it has neither tasks nor an environment)",
            where=str(path),
            fix=f"start from {_EXAMPLE_OF_SUITES}",
        )
    return suite_of(check_config(content, where=str(path)), where=str(path))


def suite_of(config: Config, *, where: str = "") -> SuiteConfig:
    """Return the suite of a config: its section `suite`, or else its own splits as one scenario.

    What a scenario leaves out is that of the config. Raises ConfigError for what fits no suite.
    """
    section = config.suite or SuiteSection(scenarios={OWN: _own_splits(config)})
    scenarios = {
        name: scenario.model_copy(
            update={
                "tasks": scenario.tasks or config.tasks,
                "environment": scenario.environment or config.environment,
                "reward": scenario.reward or config.reward,
                "harness": scenario.harness or config.harness,
            }
        )
        for name, scenario in section.scenarios.items()
    }
    engine = {name: getattr(config.rollout, name) for name in SampledConfig.model_fields}
    if not config.rollout.kind.restarts:
        engine |= {"engine": "auto", "server": type(config.rollout.server)()}
    loaded = {name: getattr(config.policy, name) for name in LoadedModel.model_fields}
    content = {
        **{name: getattr(section, name) for name in SuiteSection.model_fields},
        "name": config.name,
        "seed": config.seed,
        "metric": section.metric or (None if config.evaluation.metric == "auto" else config.evaluation.metric),
        "scenarios": {name: scenario.model_dump() for name, scenario in scenarios.items()},
        "policy": LoadedModel(**loaded).model_dump(),
        "rollout": SampledConfig(**engine).model_dump(),
        "experiment": config.tracking.experiment,
    }
    return check_settings(SuiteConfig, content, where=where or config.name, page=_PAGE_OF_SUITES)


def _own_splits(config: Config) -> ScenarioConfig:
    splits: list[Split] = ["test", "gate"]
    if config.tasks.has_off_distribution:
        splits.append("off_distribution")
    attempts = {name: getattr(config.evaluation, name) for name in AttemptsConfig.model_fields}
    slices = ["environment"] if config.environments else []
    return ScenarioConfig(splits=splits, sampling=[SuiteSampling(**attempts)], slices=slices)


def read_settings(
    path: Path, overrides: list[str] | None = None, *, example: str = "configs/demo.yaml"
) -> dict[str, Any]:
    """Return the mapping of a YAML file with the overrides, unchecked; `example` is named to one who has no file.

    What the files of specifications hold stands in place of their names. Raises ConfigError.
    """
    content = _mapping(path, str(path), f"name a YAML file such as {example}")
    if "criteria" in content and not _OF_CONFIG & content.keys():
        raise ConfigError(
            "this is the specification of a reward, and no config",
            where=str(path),
            fix=f"give a config that names it: reward: {{spec: {path.name}}}",
        )
    for override in overrides or []:
        apply_override(content, override)
    read_named_specifications(content, path.parent)
    return content


def _mapping(path: Path, where: str, fix: str) -> dict[str, Any]:
    """Return the mapping that a YAML file holds. Raises ConfigError, which says `fix` where there is none."""
    if problem := why_no_file(path):
        raise ConfigError(problem, where=where, fix=fix)
    try:
        if (size := path.stat().st_size) > LARGEST_FILE:
            raise ValueError(f"it has {size:,} bytes, and at most {LARGEST_FILE:,} are read")
        content = read_yaml(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as cause:
        raise ConfigError(f"not readable as YAML: {redact(str(cause))}", where=where, fix="mend the file") from cause
    if not isinstance(content, dict):
        raise ConfigError("the file holds no mapping", where=where, fix=fix)
    return content


def read_named_specifications(content: MutableMapping[str, Any], folder: Path) -> None:
    """Replace the names of files in all settings `reward.spec` of a config or suite by what the files hold.

    Names are relative to `folder`, the config's own. Raises ConfigError for what cannot be read as a YAML mapping, and
    for a key that a file may not ask for.
    """
    for path, reward in _rewards(content):
        if isinstance(reward.get("spec"), str):
            file = folder / Path(reward["spec"]).expanduser()
            where = f"{path}.spec: {file}"
            fix = "name a YAML file with criteria, relative to the config (docs/guide/reward-specification.md)"
            reward["spec"] = _mapping(file, where, fix)
            check_key(reward["spec"], where)


def _rewards(content: Any, path: str = "") -> Iterator[tuple[str, MutableMapping[str, Any]]]:
    """Yield (path, section) of all sections `reward`, at the top or within environments and scenarios."""
    if not isinstance(content, Mapping):
        return
    for key, value in content.items():
        place = f"{path}.{key}" if path else str(key)
        if key == "reward" and isinstance(value, MutableMapping):
            yield place, value
        elif key in ("environments", "suite", "scenarios") or path.rpartition(".")[2] in ("environments", "scenarios"):
            yield from _rewards(value, place)


def check_key(content: Mapping[str, Any], where: str) -> None:
    """Raise ConfigError if the file of a specification asks for a variable that is not there for judges.

    The file says where the key is sent. A variable is there for judges if a word of its name is `JUDGE`.
    """
    judge = content.get("judge")
    key = judge.get("api_key") if isinstance(judge, Mapping) else None
    if isinstance(judge, Mapping) and isinstance(key, str):
        if "JUDGE" in key.removeprefix("env:").upper().split("_"):
            return
        raise ConfigError(
            f"judge.api_key would send {key} to {judge.get('endpoint')}, and a file may not choose any variable",
            where=where,
            fix="name one with JUDGE in it, such as env:JUDGE_KEY, or write the specification into the config",
        )


def check_config(content: dict[str, Any], *, where: str) -> Config:
    """Validate a mapping as a config. Raises ConfigError, which names `where` and lists every problem with its key."""
    return check_settings(Config, content, where=where)


def check_settings(kind: type[Checked], content: dict[str, Any], *, where: str, page: str = _PAGE) -> Checked:
    """Validate a mapping as settings of this kind, which are described on `page`. Raises ConfigError."""
    try:
        return kind.model_validate(content)
    except ValidationError as cause:
        errors = cause.errors()
        problems = [f"  {explained(error, kind)}" for error in errors[:MOST_PROBLEMS]]
        more = [f"  and {len(errors) - MOST_PROBLEMS} more"] if len(errors) > MOST_PROBLEMS else []
        fix = f"every setting, with its unit and default, is in {page}"
        if any("spec" in error["loc"] for error in errors):
            fix += f"; every field of a specification is in {FIELDS}"
        said = "\n".join([f"{len(errors)} setting(s) cannot be used:", *problems, *more])
        raise ConfigError(said, where=where, fix=fix) from None


_PLAIN = {
    "missing": "it is missing and has no default",
    "model_type": "a section of settings belongs here",
    "union_tag_not_found": "its `type` is missing, which says what it is",
}
_WITHOUT_VALUE = ("value_error", "missing", "union_tag_not_found", "union_tag_invalid", "extra_forbidden")


def explained(error: Any, kind: type[BaseModel]) -> str:
    """Return one line for one of pydantic's errors: the key, what is wrong, and the nearest key for an unknown one."""
    location = [f"{part!s:.80}" for part in error["loc"]]
    message = _PLAIN.get(error["type"]) or str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        near = _nearest(location, kind)
        message = f"unknown setting; did you mean {near}?" if near else "unknown setting"
    elif error["type"] == "union_tag_invalid":
        message = f"there is no type {error['ctx']['tag']!r:.80}: it is one of {error['ctx']['expected_tags']}"
    elif error["type"] not in _WITHOUT_VALUE and not isinstance(error.get("input"), dict):
        message += f", not {hide_secrets(error.get('input'))!r:.80}"
    return f"{'.'.join(location) or 'the whole config'}: {message}"


def _nearest(location: list[str], kind: type[BaseModel]) -> str:
    """Return the keys of settings that are called so, else the nearest one beside it; empty if there is none."""
    *parent, name = location
    keys = [key.split(".") for key in _keys(kind)]
    if same := [".".join(key) for key in keys if key[-1] == name]:
        return " or ".join(same[:3])
    near = get_close_matches(name, [key[-1] for key in keys if key[:-1] == parent], n=1)
    return ".".join([*parent, *near]) if near else ""


def _keys(kind: type[BaseModel], path: str = "") -> Iterator[str]:
    """Yield the keys of all settings in a section and the sections within it, those in maps and lists left out."""
    for name, field in kind.model_fields.items():
        yield f"{path}{name}"
        for inner in (field.annotation, *(get_args(field.annotation) if field.default is None else ())):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                yield from _keys(inner, f"{path}{name}.")


def check_variables(config: Config) -> None:
    """Raise ConfigError if an environment variable that a setting names is not set or holds an unusable address."""
    members = {f"environments.{name}.environment": member for name, member in config.environment.members().items()}
    for where, environment in (members or {"environment": config.environment}).items():
        require(environment.kwargs, f"{where}.kwargs")
    config.rollout.server.read_addresses()
    if config.other_model is not None:
        require(config.other_model.api_key, "controls.api_key")


def check_suite_variables(suite: SuiteConfig) -> None:
    """Raise ConfigError if an environment variable that a setting names is not set."""
    for name, scenario in suite.scenarios.items():
        if scenario.environment is not None:
            require(scenario.environment.kwargs, f"scenarios.{name}.environment.kwargs")


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
            said = f"{'.'.join(sections[: depth + 1])} is not a section"
            raise ConfigError(said, where=f"--set {key}", fix=f"every section and setting is in {_PAGE}")
        target = inner
    try:
        target[last] = read_yaml(text)
    except ValueError as cause:
        said = f"the value is not readable as YAML: {cause}"
        raise ConfigError(said, where=f"--set {key}", fix="put it in quotes within the value") from cause


def holds_secret(override: str) -> bool:
    """Return whether an override, `a.b.c=value`, sets what looks like a secret, at whatever depth of its value."""
    content: dict[str, Any] = {}
    try:
        apply_override(content, override)
    except ConfigError:  # it is no override, so only its form can tell
        return redact(override) != override
    return bool(find_secrets(content))
