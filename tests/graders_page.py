"""The page of all graders, made from their classes: `python -m tests.graders_page > docs/guide/graders.md`."""

import sys
from collections.abc import Iterator
from typing import Any

from pydantic_core import PydanticUndefined

from rlft.rewards.specification.grader import JudgeSettings
from rlft.rewards.specification.model import GRADERS, Applies, Case, Criterion, Specification
from rlft.rewards.specification.reading import Read
from tests.settings_page import bounds, shown, type_name

HEAD = """# Graders and their fields

How a specification is written stands in [reward-specification.md](reward-specification.md). Scores lie in [0, 1], but
those of `function`, whose criterion says its `minimum` and `maximum`.
"""
PARTS = {
    "A specification": Specification,
    "A criterion": Criterion,
    "`applies`": Applies,
    "`read`": Read,
    "A case": Case,
    "`judge`": JudgeSettings,
}


def page() -> str:
    """All pieces of a specification, then all graders, as tables."""
    lines = [HEAD]
    for name, kind in PARTS.items():
        lines += [f"## {name}\n", f"{_says(kind)}\n", *_table(kind)]
    for name, kind in GRADERS.items():
        lines += [f"## {name}\n", f"{_says(kind)}\n", *_table(kind)]
    return "\n".join(lines)


def _says(kind: Any) -> str:
    return " ".join((kind.__doc__ or "").split())


def _table(kind: Any) -> Iterator[str]:
    yield "| field | type | default | |\n|---|---|---|---|"
    for name, field in kind.model_fields.items():
        if name == "type":
            continue
        default = "required" if field.default is PydanticUndefined else f"`{shown(field.default)}`"
        limits = ", ".join(f"{sign} {value}" for sign, value in bounds(field))
        said = (field.description or "").replace("|", "\\|")
        yield f"| `{name}` | {_type(field.annotation)}{', ' if limits else ''}{limits} | {default} | {said} |"
    yield ""


def _type(annotation: Any) -> str:
    if annotation == Criterion.model_fields["grader"].annotation:
        return "a grader"
    return type_name(annotation).replace("|", "or")


if __name__ == "__main__":
    sys.stdout.write(page())
