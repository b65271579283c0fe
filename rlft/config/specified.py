"""The setting `reward.spec`, a specification in a file of its own or in the config; what it makes of an environment.

The file's content replaces its name when a config is read, so that a stored config needs no file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from rlft.config.environment import EnvironmentConfig, RewardConfig
from rlft.config.names import SPECIFICATION
from rlft.config.trusted import check_trusted_file
from rlft.config.yaml_text import read_yaml
from rlft.errors import ConfigError
from rlft.files import why_no_file

PLAIN = "rlft.environments.specified:Plain"
"""The environment of a config that has a specification and names none."""
PAGE = "docs/guide/reward-specification.md"
_LARGEST_FILE = 1_000_000  # bytes


def read_specification(path: Path, setting: str) -> dict[str, Any]:
    """Return the content of a specification's file, unchecked.

    `setting` names the file, for the error. Raises ConfigError for what cannot be read as a YAML mapping.
    """
    where, fix = f"{setting}: {path}", f"name a YAML file with criteria, as {PAGE} shows"
    if problem := why_no_file(path):
        raise ConfigError(problem, where=where, fix=f"{fix}; its path is relative to the config")
    try:
        if (size := path.stat().st_size) > _LARGEST_FILE:
            raise ValueError(f"the file has {size:,} bytes, and at most {_LARGEST_FILE:,} are read")
        content = read_yaml(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as cause:
        raise ConfigError(f"it is not readable as YAML: {cause}", where=where, fix="mend the file") from cause
    if not isinstance(content, dict):
        raise ConfigError("it is no mapping with criteria", where=where, fix=fix)
    return content


def read_named_specifications(content: MutableMapping[str, Any], folder: Path) -> dict[str, Path]:
    """Replace the names of files in all settings `reward.spec` of a config or suite by what the files hold.

    Names are relative to `folder`, the config's own. Returns {setting: file}. Raises ConfigError as
    `read_specification` does, and for what a file may not ask for unless `reward.spec_may` allows it.
    """
    files = dict[str, Path]()
    for path, reward in _rewards(content):
        if isinstance(reward.get("spec"), str):
            file = files[f"{path}.spec"] = folder / Path(reward["spec"]).expanduser()
            content_read = read_specification(file, f"{path}.spec")
            check_trusted_file(content_read, reward, file, path)
            reward["spec"] = content_read
    return files


def with_specification(environment: EnvironmentConfig, reward: RewardConfig) -> EnvironmentConfig:
    """Return the environment whose reward is the specification of `reward`, or the same one if it has none.

    The weights of `reward` stand in it. Raises ValueError for an environment that has a specification of another
    reward, and for weights that its criteria cannot have.
    """
    if reward.spec is None:
        if SPECIFICATION in environment.kwargs:
            raise ValueError(
                f"environment.kwargs.{SPECIFICATION} is made of reward.spec, which is not there; write reward.spec"
            )
        return environment
    content = reward.spec.weighed(reward.weights).model_dump_json(exclude_defaults=True)
    return environment.model_copy(update={"kwargs": {**environment.kwargs, SPECIFICATION: content}})


def unscored(environment: EnvironmentConfig) -> EnvironmentConfig:
    """Return the environment as attempts are made in it: the same one whatever its specification says.

    So nothing is sampled again after an edit of the specification. It cannot score.
    """
    if members := environment.members():
        return EnvironmentConfig.of_several({name: unscored(member) for name, member in members.items()})
    if SPECIFICATION not in environment.kwargs:
        return environment
    return environment.model_copy(update={"kwargs": {**environment.kwargs, SPECIFICATION: ""}})


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
