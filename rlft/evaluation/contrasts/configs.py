"""Settings in which runs differ."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

# What the trained weights do not depend on: the name, what is told to MLflow and the registry, what is compared,
# and of which run of a setting a replay is.
_ASIDE = ("name", "seed", "tracking", "promotion", "controls", "suite", "baseline", "policy.keep", "replay.of")
ABSENT = "(not set)"


def flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested settings as {`a.b.c`: value}. Lists and empty mappings are values."""
    return dict(_leaves(settings, ""))


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, each in value.items():
            yield from _leaves(each, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def differing(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return {setting: {run: value}} for each setting in which the runs are not all alike; `ABSENT` where one has none.

    `settings` maps each run to its config. A section that one run lacks differs as a whole.
    """
    leaves = {run: flat(each) for run, each in settings.items()}
    names = dict.fromkeys(name for each in leaves.values() for name in each)
    found = {name: {run: each.get(name, ABSENT) for run, each in leaves.items()} for name in names}
    return {
        name: values
        for name, values in found.items()
        if any(value != values[next(iter(values))] for value in values.values())
    }


def same_setting(settings: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Return the runs in groups that differ in nothing which the weights depend on but `seed`, in their order."""
    groups: dict[str, list[str]] = {}
    for run, each in settings.items():
        kept = {name: value for name, value in flat(each).items() if not _is_aside(name)}
        groups.setdefault(repr(sorted(kept.items())), []).append(run)
    return list(groups.values())


def by_seed(runs: Iterable[str], seeds: Mapping[str, Hashable]) -> list[list[str]]:
    """Return the runs in groups of one seed each, in their order: a rerun of a seed tells little of another one."""
    groups: dict[Hashable, list[str]] = {}
    for run in runs:
        groups.setdefault(seeds[run], []).append(run)
    return list(groups.values())


def _is_aside(name: str) -> bool:
    return any(name == aside or name.startswith(f"{aside}.") for aside in _ASIDE)
