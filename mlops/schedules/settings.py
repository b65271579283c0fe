"""The settings of a schedule, as a YAML file holds them: which config is run, when, why, and who is told."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger
from pydantic import BeforeValidator, Field, field_validator, model_validator

from rlft.config.evaluation import PromotionConfig
from rlft.config.file import check_settings, read_settings
from rlft.config.section import MOST, PathText, Section, Text, check_plain_name, refuse_secrets
from rlft.config.suite import Word
from rlft.config.training import BudgetConfig
from rlft.evaluation.model_names import parse_model

_DAY = timedelta(days=1)


def due_trigger(cron: str, timezone: tzinfo) -> CronTrigger:
    """Return the due times of a cron expression in a time zone.

    A time that the clock skips in spring is due an hour later, and one that it shows twice in autumn is due twice.
    Raises ValueError for an expression that cannot be used, or that APScheduler reads otherwise than cron.
    """
    trigger = CronTrigger.from_crontab(cron, timezone)
    _, _, day, _, weekday = cron.split()
    if day != "*" and weekday != "*":
        what = "names days of the month and of the week, of which cron takes either and others both"
        raise ValueError(f"{cron!r:.80} {what}; make two schedules")
    if any(letter.isdigit() for letter in weekday):  # 1 is Monday to cron, and Tuesday to APScheduler
        raise ValueError(f"{cron!r:.80} has a number as a day of the week; write names, such as mon or mon-fri")
    if trigger.get_next_fire_time(None, datetime.now(timezone)) is None:
        raise ValueError(f"{cron!r:.80} is never due")
    return trigger


def newest_due(trigger: CronTrigger, after: datetime, now: datetime) -> datetime | None:
    """Return the newest due time in (after, now]; `None` if there is none."""
    for start in (max(after, now - _DAY), after):  # an expression may be due every minute, and `after` a year ago
        found, last = None, start
        while (moment := trigger.get_next_fire_time(last, now)) is not None and moment <= now:
            found = last = moment
        if found is not None:
            return found
    return None


Event = Literal["improved", "promoted", "waiting_for_approval", "failed"]
LONGEST_NAME = 60  # it is a part of the names of runs and of files
_VARIABLE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")


class NewTasks(Section):
    """There are tasks that the last run did not have."""

    at_least: int = Field(default=1, ge=1, le=MOST, description="So many new tasks are a reason; fewer wait.")


class ScoreBelow(Section):
    """The champion of the model that the config registers is shown to be worse than a bound on the `test` split of a
    suite, such as tasks that came from its use."""

    suite: PathText = Field(description="The suite, as of `rlft evaluate --suite`: a file of its own, or a config.")
    bound: float = Field(
        ge=-1e9,
        le=1e9,
        description="The whole interval of the suite's metric must lie below this, 95 % at the first look and surer at "
        "each later one; that its mean does is not enough, since a few tasks have such a mean by chance.",
    )
    scenario: Word | None = Field(
        default=None, description="The scenario that counts. null means the suite's only one."
    )


class Changed(Section):
    """Something is not what it was at the last run."""

    files: list[PathText] = Field(default=[], max_length=100, description="Files whose content counts.")
    aliases: list[Text] = Field(
        default=[], max_length=100, description="Aliases of the registry, such as models:/base@production."
    )

    @field_validator("aliases")
    @classmethod
    def _name_aliases(cls, aliases: list[str]) -> list[str]:
        for alias in aliases:
            if not alias.startswith("models:") or parse_model(alias).alias is None:
                raise ValueError(f"{alias!r:.80} names no alias; write models:/NAME@ALIAS")
        return aliases

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if not (self.files or self.aliases):
            raise ValueError("it names nothing; give files or aliases")
        return self


class WhenConfig(Section):
    """Reasons to run, of which one is enough. Without any, a run is made at every due time."""

    new_tasks: NewTasks | None = None
    score_below: ScoreBelow | None = None
    changed: Changed | None = None

    @property
    def is_always(self) -> bool:
        """Whether no reason is asked for."""
        return self == WhenConfig()


def _as_reasons(given: Any) -> Any:
    if given == "always":
        return {}
    if given == "new_tasks":
        return {"new_tasks": {}}
    if isinstance(given, Mapping) and given:
        return {name: {} if name == "new_tasks" and inner is None else inner for name, inner in given.items()}
    raise ValueError(f"{given!r:.80} is no reason; write always, or some of new_tasks, score_below and changed")


class RetriesConfig(Section):
    """What follows a run that failed. A run that had begun goes on where it stopped, as by `rlft resume`."""

    count: int = Field(default=2, ge=0, le=100, description="How often a run that failed is tried again.")
    wait_minutes: float = Field(
        default=10.0,
        ge=0,
        le=60.0 * 24 * 31,
        description="How long before the first time. Each later wait is twice as long, up to four hours.",
    )


class NotifyConfig(Section):
    """Who is told what came of a run."""

    events: list[Event] = Field(default=list(get_args(Event)), description="What is told.")
    webhook: str | None = Field(
        default=None,
        description="`env:NAME`: the environment variable with the address that gets a JSON object by POST. Such "
        "addresses hold tokens, so that the file never has the address itself.",
    )

    @field_validator("webhook")
    @classmethod
    def _names_a_variable(cls, webhook: str | None) -> str | None:
        if webhook is not None and not _VARIABLE.fullmatch(webhook):
            raise ValueError("an address may hold a token; put it into an environment variable and write env:NAME")
        return webhook


class ScheduleConfig(Section):
    """The whole schedule."""

    name: str = Field(max_length=LONGEST_NAME, description="Name of the schedule: letters, digits, `_`, `.` and `-`.")
    config: PathText = Field(description="The config that is run, from the folder in which the schedule is applied.")
    cron: Text = Field(description="When, as cron writes it: minute, hour, day of the month, month, day of the week.")
    timezone: ZoneInfo = Field(
        default=ZoneInfo("UTC"), description="The time zone in which `cron` is meant, such as Europe/Berlin."
    )
    when: Annotated[WhenConfig, BeforeValidator(_as_reasons)] = Field(
        default=WhenConfig(), description="`always`, or reasons to run, of which one is enough."
    )
    retries: RetriesConfig = RetriesConfig()
    budget: BudgetConfig = BudgetConfig()
    promotion: PromotionConfig = PromotionConfig()
    stack: Text | None = Field(default=None, description="The ZenML stack that runs are on. null means `.rlft/`.")
    notify: NotifyConfig = NotifyConfig()

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        return check_plain_name(name)

    @field_validator("cron")
    @classmethod
    def _is_cron(cls, cron: str) -> str:
        due_trigger(cron, UTC)
        return " ".join(cron.split())

    @model_validator(mode="before")
    @classmethod
    def _holds_no_secrets(cls, content: Any) -> Any:
        return refuse_secrets(content)

    @property
    def trigger(self) -> CronTrigger:
        """When it is due."""
        return due_trigger(self.cron, self.timezone)


def load_schedule(path: Path) -> tuple[ScheduleConfig, dict[str, Any]]:
    """Return the schedule of a file, and the mapping that it holds. Raises ConfigError, which names file and key."""
    content = read_settings(path, example="configs/schedules/weekly.yaml")
    return check_schedule(content, where=str(path)), content


def check_schedule(content: dict[str, Any], *, where: str) -> ScheduleConfig:
    """Validate a mapping as a schedule. Raises ConfigError, which lists every problem with its key."""
    return check_settings(ScheduleConfig, content, where=where, page="docs/guide/schedules.md")


def overrides_of(schedule: ScheduleConfig) -> list[str]:
    """Return what a schedule changes in its config, as `--set` takes it: what it sets of `budget` and `promotion`."""
    return [
        f"{name}.{key}={json.dumps(value)}"
        for name, section in (("budget", schedule.budget), ("promotion", schedule.promotion))
        for key, value in section.model_dump(mode="json", include=section.model_fields_set).items()
    ]
