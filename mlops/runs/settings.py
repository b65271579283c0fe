"""The config of a run as ZenML stores it with the run: a parameter of its pipeline, which says its format version."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from rlft.config import Config
from rlft.config.file import apply_override, check_config
from rlft.errors import ConfigError
from rlft.formats import CONFIG, KEY


def as_parameter(config: Config) -> dict[str, Any]:
    """Return a config as it is stored with a run."""
    return {KEY: CONFIG.newest, **config.model_dump(mode="json")}


def stored_settings(parameter: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the settings that are stored with the run `where`, as a mapping that an older rlft may have made.

    Raises FormatVersionError for a format that is not read.
    """
    settings = copy.deepcopy(dict(parameter))
    CONFIG.check(settings.pop(KEY, None), where=where)
    return settings


def stored_config(parameter: Mapping[str, Any], where: str, overrides: Sequence[str] = ()) -> Config:
    """Return the config that is stored with the run `where`, with these changes, such as `promotion.looks=1`.

    Raises FormatVersionError for a format that is not read, and ConfigError if an rlft that had other settings stored
    it, or for an override.
    """
    settings = stored_settings(parameter, where)
    for override in overrides:
        apply_override(settings, override)
    try:
        return check_config(settings, where=where)
    except ConfigError as cause:
        if overrides:
            raise
        raise ConfigError(
            f"this run was begun with an rlft that had other settings: {cause.what}",
            where=where,
            fix="use that rlft for it, or begin a new run with `rlft run`",
        ) from cause
