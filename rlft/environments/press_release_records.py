"""The record that is extracted from a press release, its contradictions, and the places and dates that a text names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from rlft.types import Message, ToolCall

Province = Literal[
    "badakhshan", "badghis", "baghlan", "balkh", "bamyan", "day_kundi", "farah", "faryab", "ghazni", "ghor", "helmand",
    "herat", "jowzjan", "kabul", "kandahar", "kapisa", "khost", "kunar", "kunduz", "laghman", "logar", "nangarhar",
    "nimroz", "nuristan", "paktya", "paktika", "panjshir", "parwan", "samangan", "sar_e_pul", "takhar", "uruzgan",
    "wardak", "zabul",
]  # fmt: skip
PROVINCES: tuple[Province, ...] = get_args(Province)

# Patterns for names that are written in more than one way. `-?` stands for `_BETWEEN`: at most two signs or spaces.
_SPELLINGS = {
    "badakhshan": "badakh?shan",
    "badghis": "bad-?ghis",
    "bamyan": "bami?yan|bamian",
    "day_kundi": "da[iy]-?kundi",
    "ghazni": "ghazni|ghanzi",
    "ghor": "ghow?r",
    "helmand": "h[ei]lmand",
    "herat": "h[ei]rat",
    "jowzjan": "j[ao]w?zjan",
    "kandahar": "[kq]andahar",
    "khost": "kh[ow]+st",
    "kunar": "k[ou]nar",
    "kunduz": "[kq][ou]nd[ou]z",
    "logar": "low?gar",
    "nangarhar": "nangarhar|nangahar|nagarhar|ningarhar",
    "nimroz": "nimr[ou]z",
    "nuristan": "nuristan|nooristan",
    "paktya": "pakt(?:iy|i|y)a",
    "panjshir": "panj-?sh[ei]r",
    "sar_e_pul": "sar-?(?:[ei]-?)?p[ou]l",
    "uruzgan": "[ou]r[uo]zgan",
    "wardak": "[wv]ardak|wardag",
    "zabul": "zab[uo]l",
}
_BETWEEN = r"[\W_]{0,2}"
_NAMES = {
    name: re.compile(rf"(?<![^\W_])(?:{_SPELLINGS.get(name, name).replace('-?', _BETWEEN)})(?![^\W_])", re.IGNORECASE)
    for name in PROVINCES
}
_HEADQUARTERS = re.compile(r"kabul,?\s+afghanistan", re.IGNORECASE)  # where releases are written, not of what they tell
_YEAR = re.compile(r"(?<!\d)20(?:09|1[0-4])(?!\d)")
_MONTH = r"(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*"
_DAY = re.compile(rf"\b(?:{_MONTH}\.?\s*\d{{1,2}}|\d{{1,2}}\s+{_MONTH})\b", re.IGNORECASE)


def named_provinces(text: str) -> tuple[Province, ...]:
    """Return the provinces that a text names in any spelling, in the order of `PROVINCES`.

    The dateline "KABUL, Afghanistan" does not name Kabul.
    """
    told = _HEADQUARTERS.sub(" ", text)
    return tuple(name for name in PROVINCES if _NAMES[name].search(told))


def is_dated(text: str) -> bool:
    """Return whether a text holds a year from 2009 to 2014 and a day of a month, so that a date can be read from it."""
    return bool(_YEAR.search(text) and _DAY.search(text))


EventType = Literal[
    "airstrike", "detention", "captureandkill", "insurgentskilled", "exchangeoffire", "civiliancasualty"
]
TargetGroup = Literal[
    "taliban", "haqqani", "criminals", "aq", "hig", "let", "imu", "judq", "iju", "hik", "ttp", "other"
]  # fmt: skip
TOOL_NAME = "extract_data"

_MISSION = (date(2001, 12, 20), date(2014, 12, 31))  # ISAF's, which wrote the releases
_ISO_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_Item = TypeVar("_Item")


def _all_different(values: list[_Item]) -> list[_Item]:
    if len(set(values)) < len(values):
        raise ValueError("a value stands in the list twice")
    return values


def _day_or_nothing(text: str) -> str:
    if text:
        if not _ISO_DAY.fullmatch(text):
            raise ValueError("a date must be YYYY-MM-DD, or empty where the text does not tell")
        date.fromisoformat(text)
    return text


_Day = Annotated[str, AfterValidator(_day_or_nothing)]
_Choices = Annotated[list[_Item], AfterValidator(_all_different), Field(json_schema_extra={"uniqueItems": True})]
_Count = Annotated[int, Field(ge=0)]


class Extraction(BaseModel):
    """Holds what a press release says of one incident. Every field must be given; nothing is converted: "3" is no
    count."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    start_date: _Day = Field(description="Day of the incident, YYYY-MM-DD; empty if the text does not tell.")
    event_type: _Choices[EventType] = Field(description="What happened; mostly one value.")
    province: _Choices[Province] = Field(description="Where; empty if the text names no province.")
    target_group: _Choices[TargetGroup] = Field(description="Who was its target; empty if the text does not say.")
    min_killed: _Count = Field(description="At least so many were killed, leaders included.")
    min_captured: _Count = Field(description="At least so many were captured, leaders included.")
    min_leaders_killed: _Count = Field(description="At least so many of the killed were leaders.")
    min_leaders_captured: _Count = Field(description="At least so many of the captured were leaders.")
    killq: bool = Field(description="Whether anyone was killed.")
    captureq: bool = Field(description="Whether anyone was captured.")
    killcaptureraid: bool = Field(description="Whether it was a raid to kill or capture someone.")
    airstrike: bool = Field(description="Whether there was an air strike.")
    noshotsfired: bool = Field(description="Whether the text says that no shots were fired.")


def extraction_schema() -> dict[str, Any]:
    """Return the JSON schema of an extraction (draft 2020-12), with the allowed values, without pydantic's titles."""
    schema = Extraction.model_json_schema()
    fields = {
        name: {key: value for key, value in field.items() if key != "title"}
        for name, field in schema["properties"].items()
    }
    return {"type": "object", "properties": fields, "required": schema["required"], "additionalProperties": False}


def read_extraction(value: Any) -> Extraction | None:
    """Return a JSON value as an extraction, or `None` if it is not exactly one."""
    try:
        return Extraction.model_validate(value)
    except ValidationError:
        return None


def malformed(value: Any) -> list[str]:
    """Return what is wrong with the form of a JSON value that should be an extraction, one text per field."""
    try:
        Extraction.model_validate(value)
    except ValidationError as error:
        return [f"{'.'.join(map(str, found['loc'])) or 'extraction'}: {found['msg']}" for found in error.errors()]
    return []


def extract_calls(messages: Sequence[Message]) -> list[ToolCall]:
    """Return the assistant's calls of `extract_data`, valid or not."""
    said = [message for message in messages if message["role"] == "assistant"]
    calls = [call for message in said for call in message.get("tool_calls") or ()]
    return [call for call in calls if call["function"]["name"] == TOOL_NAME]


def last_call(messages: Sequence[Message]) -> Extraction | None:
    """Return the extraction of the last valid `extract_data` call, or `None`; invalid calls after it change nothing."""
    read = (read_extraction(call["function"]["arguments"]) for call in reversed(extract_calls(messages)))
    return next((extraction for extraction in read if extraction is not None), None)


def contradictions(extraction: Extraction) -> tuple[str, ...]:
    """Return why an extraction cannot be right, whatever the text says: one text for each contradiction in it.

    They are shown to the model, so none of them says what would be right.
    """
    e = extraction
    said = set(e.event_type)
    checks = {
        "killq must be true exactly if min_killed is above 0": e.killq == (e.min_killed > 0),
        "captureq must be true exactly if min_captured is above 0": e.captureq == (e.min_captured > 0),
        "more leaders than people were killed": e.min_leaders_killed <= e.min_killed,
        "more leaders than people were captured": e.min_leaders_captured <= e.min_captured,
        "event_type has an airstrike, the flag airstrike is false": "airstrike" not in said or e.airstrike,
        "a detention without anyone captured": "detention" not in said or e.captureq,
        "insurgentskilled without anyone killed": "insurgentskilled" not in said or e.killq,
        "captureandkill without both": "captureandkill" not in said or (e.killq and e.captureq),
        "people were killed and no shots fired": not (e.noshotsfired and e.min_killed and not e.airstrike),
        "start_date is not between December 2001 and December 2014": not e.start_date
        or _MISSION[0] <= date.fromisoformat(e.start_date) <= _MISSION[1],
    }
    return tuple(sentence for sentence, holds in checks.items() if not holds)
