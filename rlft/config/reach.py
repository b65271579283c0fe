"""What a config runs, reads and asks beyond rlft itself, told before any of it is done."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rlft.config.addresses import named_addresses
from rlft.config.code import code_of
from rlft.config.experiment import Config
from rlft.config.names import SPECIFICATION, is_import_path
from rlft.files import RLFT_FOLDER
from rlft.secrets import named_variables
from rlft.visible import visible

_OF_REWARDS = ("environment.name", "reward.spec")


def reaches(config: Config) -> list[str]:
    """Return a sentence for each file of code that the reward of a config runs here, and for where it sends a key.

    Code of rlft itself is left out, and so are the files that such a file imports.
    """
    named = (each.file for each in code_of(config) if each.setting in _OF_REWARDS)
    files = dict.fromkeys(file.resolve() for file in named if file is not None and file.is_file())
    said = [f"This runs the code in {each}." for each in files if not each.is_relative_to(RLFT_FOLDER)]
    if (spec := config.reward.spec) is None:
        return said
    if (judge := spec.judge) is not None and judge.api_key is not None:
        said.append(f"This sends the key in ${judge.api_key.removeprefix('env:')} to {judge.place}.")
    if spec.sandbox == "none" and any(each.needs_sandbox for each in spec.graders()):
        said.append("This runs programs with your rights, as the specification says `sandbox: none`.")
    return said


def asks_of(config: Config) -> list[str]:
    """Return a line for each thing that a run with a config uses: its environments, what their arguments make, files
    of code, the loss, variables, and addresses.

    No text of the config can add a line of its own. What code reads and asks by itself is not known.
    """
    settings = config.model_dump(mode="json")
    environments = config.environment.members() or {"": config.environment}
    lines = [f"environment {each.name}" for each in environments.values()]
    if is_import_path(config.training.loss_type):
        lines.append(f"loss {config.training.loss_type}")
    for path, key, value in _at_paths(settings, ""):
        if key == "_target_":
            lines.append(f"call of {value} ({path})")
        elif ".kwargs." in path and isinstance(value, str) and _may_name_code(value):
            lines.append(f"code {value} ({path})")
        elif key == "sandbox" and value == "none":
            lines.append(f"programs without a sandbox ({path})")
    files = ((each.setting, each.file) for each in code_of(config) if each.file is not None)
    lines += [f"file of code {file.resolve()} ({setting})" for setting, file in files if not _is_own(file)]
    lines += [f"variable {name} ({path})" for path, name in named_variables(settings, "")]
    lines += [f"address {address} ({path})" for path, address in _addresses(settings)]
    if config.distributed is not None and config.distributed.address is not None:
        lines.append(f"address {config.distributed.address} (distributed.address), which gets Ray's token")
    return [visible(" ".join(line.split())) for line in dict.fromkeys(lines)]


def _is_own(file: Path) -> bool:
    return file.resolve().is_relative_to(RLFT_FOLDER)


def _may_name_code(text: str) -> bool:
    return is_import_path(text) and not text.startswith("env:")


def _at_paths(value: Any, path: str) -> Iterator[tuple[str, str, Any]]:
    """Yield (path, key, value) for what stands in nested maps and lists; the key of a part of a list is its list's."""
    parts = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, each in parts:
        is_listed = isinstance(value, list)
        place = f"{path}[{key}]" if is_listed else f"{path}.{key}" if path else str(key)
        yield place, path.rpartition(".")[2] if is_listed else str(key), each
        yield from _at_paths(_read(each) if key == SPECIFICATION else each, place)


def _read(specification: Any) -> Any:
    """Return the content of a specification that stands among the arguments of an environment, as JSON text."""
    try:
        return json.loads(specification)
    except (ValueError, TypeError):  # the environment will refuse it
        return None


def _addresses(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (path, address) of each text that is or holds an address.

    One without a scheme, such as `host.domain/path`, counts among the arguments of environments, if it is no file.
    """
    for path, address in named_addresses(settings, ""):
        is_bare = address.startswith("//")
        if not is_bare or (".kwargs." in path and not Path(address.removeprefix("//")).exists()):
            yield path.lstrip("."), address.removeprefix("//")
