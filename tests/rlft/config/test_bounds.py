"""Every number in a config has a smallest and a largest value, and every text refuses what cannot be stored."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from rlft.config import Config, ModelControl, Section
from rlft.config.file import wrong_values
from rlft.config.section import check_model_name
from tests.settings_page import section_of

# Settings whose smallest value another check tells in words of its own (tests/rlft/test_config.py).
TOLD_OTHERWISE = {"training.num_generations": {"low"}}


def settings(section: type[Section] = Config, path: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every setting of the config with its path."""
    for name, field in section.model_fields.items():
        if inner := section_of(field.annotation):
            yield from settings(inner, f"{path}{name}.")
        else:
            yield f"{path}{name}", field


def kinds(annotation: Any) -> set[Any]:
    """The types within an annotation."""
    inner = get_args(annotation)
    return {annotation, *(kind for each in inner for kind in kinds(each))} if inner else {annotation}


def test_every_number_has_bounds_on_both_sides():
    every = [*settings(), *settings(ModelControl, "controls.")]
    numbers = {path: field for path, field in every if kinds(field.annotation) & {int, float}}
    assert len(numbers) > 70  # as many as the page of settings has
    lacking = {}
    for path, field in numbers.items():
        within = path.endswith(
            ("reward.weights", "use.feedback", "chat_template_kwargs")
        )  # there the numbers within are bounded
        given = repr(field) if within else field.metadata
        has = {"low"} if _has(given, Ge, Gt) else set()
        has |= {"high"} if _has(given, Le, Lt) else set()
        if missing := {"low", "high"} - has - TOLD_OTHERWISE.get(path, set()):
            lacking[path] = missing
    assert lacking == {}


def _has(given: Any, *bounds: type) -> bool:
    if isinstance(given, str):
        return any(f"{bound.__name__}(" in given for bound in bounds)
    return any(isinstance(entry, bounds) for entry in given)


@pytest.mark.parametrize(
    "content",
    [
        {"a": [1, 2.5, None, True, "text", {"b": []}]},
        {"text": "line\nbreak and \t tab, é, 漢, \U0001f600"},
        {"large": 2**63 - 1, "small": -(2**63) + 1},
    ],
)
def test_what_json_holds_is_taken(content):
    assert list(wrong_values(content)) == []


def test_every_value_that_cannot_be_stored_is_named_with_its_place():
    wrong = list(wrong_values({"a": {"b": [1, float("nan"), {"c": "\0"}]}, "d": 2**63, 5: 1}))
    assert [line.partition(": ")[0] for line in wrong] == ["a.b[1]", "a.b[2].c", "d", "5"]


@pytest.mark.parametrize("name", ["tiny", "my model", "v1.2_b-3", "Modell für Lücken"])
def test_names_of_models_that_mlflow_takes(name):
    assert check_model_name(name) == name


@pytest.mark.parametrize("name", ["bob's model", "a@b", "50%", "a/b", "a:b", ""])
def test_names_of_models_that_mlflow_would_read_otherwise_are_refused(name):
    # models:/NAME@ALIAS is an address, and versions are looked for by name = 'NAME'
    with pytest.raises(ValueError, match=r"\w"):
        check_model_name(name)
