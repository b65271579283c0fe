"""Reads a schedule from its file, and says what it changes in the config that it runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rlft.config.file import check_settings, read_settings
from rlft.config.section import Section
from rlft.schedule.settings import ScheduleConfig

EXAMPLE = "configs/schedules/weekly.yaml"
_PAGE = "docs/guide/schedules.md"


def load_schedule(path: Path) -> tuple[ScheduleConfig, dict[str, Any]]:
    """Return the schedule of a file, and the mapping that it holds. Raises ConfigError, which names file and key."""
    content = read_settings(path, example=EXAMPLE)
    return check_schedule(content, where=str(path)), content


def check_schedule(content: dict[str, Any], *, where: str) -> ScheduleConfig:
    """Validate a mapping as a schedule. Raises ConfigError, which lists every problem with its key."""
    return check_settings(ScheduleConfig, content, where=where, page=_PAGE)


def overrides_of(schedule: ScheduleConfig) -> list[str]:
    """Return what a schedule changes in its config, as `--set` takes it: what it sets of `budget` and `promotion`."""
    return [*_changes("budget", schedule.budget), *_changes("promotion", schedule.promotion)]


def _changes(name: str, section: Section) -> list[str]:
    values = section.model_dump(mode="json", include=section.model_fields_set)
    return [f"{name}.{key}={json.dumps(value)}" for key, value in values.items()]
