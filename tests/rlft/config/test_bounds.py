"""Every number in a config has a smallest and a largest value, and every text refuses what cannot be stored."""

from collections.abc import Iterator
from datetime import date
from typing import Any, get_args

import pytest
from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from rlft.config import Config, EnvironmentConfig, ModelControl, Section
from rlft.config.file import check_settings
from rlft.config.section import check_model_name
from rlft.errors import ConfigError
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


@pytest.mark.parametrize("value", [float("nan"), date(2026, 1, 1), b"a", {3}, {1: 2}], ids=repr)
def test_a_value_that_json_cannot_hold_is_named_with_its_place(value):
    content = {"name": "a:B", "kwargs": {"b": [1, value]}}
    with pytest.raises(ConfigError, match=r"kwargs\.b"):
        check_settings(EnvironmentConfig, content, where="try.yaml")
    content["kwargs"] = {"b": [1, 2.5, None, True, "é, 漢", {"c": []}]}
    assert check_settings(EnvironmentConfig, content, where="try.yaml").kwargs == content["kwargs"]


@pytest.mark.parametrize("name", ["tiny", "my model", "v1.2_b-3", "Modell für Lücken"])
def test_names_of_models_that_mlflow_takes(name):
    assert check_model_name(name) == name


@pytest.mark.parametrize("name", ["bob's model", "a@b", "50%", "a/b", "a:b", ""])
def test_names_of_models_that_mlflow_would_read_otherwise_are_refused(name):
    # models:/NAME@ALIAS is an address, and versions are looked for by name = 'NAME'
    with pytest.raises(ValueError, match=r"\w"):
        check_model_name(name)
