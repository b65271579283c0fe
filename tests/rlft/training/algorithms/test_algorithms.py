"""All shipped algorithms: what the config and the pages make of their declarations."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from rlft.config import TrainingConfig
from rlft.training.algorithms import ALGORITHMS, chosen_algorithm

GUIDE = Path(__file__).resolve().parents[4] / "docs" / "guide" / "training.md"
in_rounds = pytest.mark.parametrize("name", [name for name, kind in ALGORITHMS.items() if kind.data == "attempts"])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_it_says_what_it_is_and_where_it_is_from(name):
    algorithm = ALGORITHMS[name]
    assert (algorithm.__doc__ or "").splitlines()[0].endswith(".")
    assert algorithm.paper
    assert all(field.description for field in algorithm.model_fields.values())


@in_rounds
def test_a_config_chooses_it_and_has_its_defaults(name):
    settings = TrainingConfig(algorithm=name)
    chosen = chosen_algorithm(settings)
    assert type(chosen) is ALGORITHMS[name]
    assert {key: getattr(settings, key) for key in chosen.defaults} == chosen.defaults
    assert TrainingConfig.model_validate(settings.model_dump(mode="json")) == settings


@in_rounds
def test_the_guide_has_a_row_for_it(name):
    found = re.search(rf"^\|[^|]+\| `algorithm: {name}`", GUIDE.read_text(), re.MULTILINE)
    assert found, f"docs/guide/training.md has no row whose second cell begins with `algorithm: {name}`"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"algorithm": "ppo"}, "'ppo' is no algorithm; use one of "),
        ({"algorithm": "sft"}, "'sft' is no algorithm; use one of "),  # it has no rounds: `warm_start` is its section
        ({"algorithm": "rejection_sampling", "beta": 0.1}, "beta=0.1 does nothing with algorithm rejection_sampling"),
        ({"imitates": "best"}, "imitates=best does nothing with algorithm grpo"),
    ],
)
def test_what_it_has_no_use_for_is_refused(settings, said):
    with pytest.raises(ValidationError, match=said):
        TrainingConfig(**settings)
