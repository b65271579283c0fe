"""The page of all settings, made from the config: `python -m tests.settings_page > docs/guide/settings.md`."""

import sys
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from rlft.config import Config, Section
from rlft.evaluation.arms import ARMS
from rlft.training.losses import LOSSES

HEAD = """# Settings

Made from `rlft/config/`. `--set training.rounds=3` changes one for a run. An unknown key, a wrong type or a pair that
makes no sense is an error before anything is loaded.
"""


def page() -> str:
    """All sections as tables."""
    top = [name for name, field in Config.model_fields.items() if section_of(field.annotation) is None]
    parts = [HEAD, *table("", Config, top), *controls()]
    for name, field in Config.model_fields.items():
        if section := section_of(field.annotation):
            parts += part(f"{name}.NAME" if get_origin(field.annotation) is dict else name, section, field)
            parts += losses() if name == "training" else ()
    return "\n".join(parts)


def part(path: str, section: type[Section], field: FieldInfo) -> Iterator[str]:
    """A section, then those within it."""
    off = " Off (null) unless it is given." if field.default is None else ""
    said = f"{section.__doc__} {field.description or ''}".strip()
    yield f"## {path}\n\n{said}{off}\n"
    inner = {name: found for name, f in section.model_fields.items() if (found := section_of(f.annotation))}
    inner = {name: found for name, found in inner.items() if found not in TOP}
    yield from table(path, section, [name for name in section.model_fields if name not in inner])
    for name, found in inner.items():
        below = section.model_fields[name]
        yield from part(f"{path}.{name}{'.NAME' if get_origin(below.annotation) is dict else ''}", found, below)


def table(path: str, section: type[BaseModel], names: list[str]) -> Iterator[str]:
    """One row for each setting."""
    yield "| setting | type | default | |\n|---|---|---|---|"
    for name in names:
        field = section.model_fields[name]
        default = "required" if field.default is PydanticUndefined else f"`{shown(field.default)}`"
        limits = ", ".join(f"{sign} {value}" for sign, value in bounds(field))
        kind = type_name(field.annotation) + (f", {limits}" if limits else "")
        yield f"| `{path}{'.' if path else ''}{name}` | {kind} | {default} | {field.description or ''} |"
    yield ""


def controls() -> Iterator[str]:
    """One row for each arm that the config can name, and the settings of those that have some."""
    arms = {name: kind for name, kind in ARMS.items() if not kind.in_every_run}
    yield "## controls\n\n| `controls` | | if none is named | from |\n|---|---|---|---|"
    for name, kind in arms.items():
        written = f"{{{name}: …}}" if kind.model_fields else name
        says = (kind.__doc__ or "").splitlines()[0]
        yield f"| `{written}` | {says} | {'yes' if kind.by_default else 'no'} | {kind.paper} |"
    yield ""
    for name, kind in arms.items():
        if kind.model_fields:
            yield f"### {name} in controls\n"
            yield from table("", kind, list(kind.model_fields))


def losses() -> Iterator[str]:
    """One row for each loss."""
    divided = {
        "tokens": "tokens of the batch",
        "rollouts": "tokens of each rollout, then rollouts",
        "length": "rollouts times `rollout.max_completion_length`",
    }
    yield "### Losses\n\n| `loss_type` | | divided by | settings | from |\n|---|---|---|---|---|"
    for name, loss in LOSSES.items():
        says = (loss.__doc__ or "").splitlines()[0]
        settings = ", ".join(f"`{setting}`" for setting in loss.model_fields)
        yield f"| `{name}` | {says} | {divided[loss.divisor]} | {settings} | {loss.paper} |"
    yield ""


def bounds(field: FieldInfo) -> Iterator[tuple[str, Any]]:
    """Such as (≥, 1)."""
    for entry in field.metadata:
        for attribute, sign in (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<")):
            if (value := getattr(entry, attribute, None)) is not None:
                yield sign, value


def section_of(annotation: Any) -> type[Section] | None:
    """The section that an annotation is or may be."""
    for found in (annotation, *get_args(annotation)):
        if isinstance(found, type) and issubclass(found, Section):
            return found
    return None


TOP = {found: name for name, field in Config.model_fields.items() if (found := section_of(field.annotation))}


def type_name(annotation: Any) -> str:
    """As a person would write it."""
    if annotation in TOP:
        return f"as `{TOP[annotation]}`"
    if get_origin(annotation) is Annotated:
        return type_name(get_args(annotation)[0])
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(annotation))
    if get_origin(annotation) in (Union, types.UnionType):
        return " or ".join(type_name(each) for each in get_args(annotation))
    return "null" if annotation is type(None) else getattr(annotation, "__name__", str(annotation))


def shown(value: Any) -> str:
    """As YAML writes it."""
    value = value.model_dump(exclude_defaults=True) if isinstance(value, Section) else value
    return yaml.safe_dump(value, default_flow_style=True, width=1000).removesuffix("\n").removesuffix("\n...")


if __name__ == "__main__":
    sys.stdout.write(page())
