"""cli.sweep: which runs a sweep has, and what is told at its end. With real runs: tests/e2e/test_sweep.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.sweep import split_values, tell_end, variations
from rlft.errors import ConfigError


def test_every_combination_is_a_run_and_the_last_key_varies_fastest():
    assert variations(["training.learning_rate=1e-4,3e-4", "seed=0,1"]) == [
        {"training.learning_rate": "1e-4", "seed": "0"},
        {"training.learning_rate": "1e-4", "seed": "1"},
        {"training.learning_rate": "3e-4", "seed": "0"},
        {"training.learning_rate": "3e-4", "seed": "1"},
    ]


@pytest.mark.parametrize(
    ("sweeps", "said"),
    [
        (["seed"], "'seed' is no sweep"),
        (["seed="], "'seed=' is no sweep"),
        (["=1,2"], "'=1,2' is no sweep"),
        (["seed=0,,1"], "'seed=0,,1' is no sweep"),
        (["seed=0,1", "seed=2,3"], "seed is swept twice"),
        (["seed=0,1,0"], "seed has the value '0' twice"),
        (["seed=0"], r"these make 1 run\(s\)"),
        ([f"seed={','.join(map(str, range(101)))}"], r"these make 101 run\(s\)"),
    ],
)
def test_what_is_no_sweep_is_refused(sweeps, said):
    with pytest.raises(ConfigError, match=said) as refused:
        variations(sweeps)
    assert refused.value.where == "--sweep"
    assert refused.value.fix


def test_a_comma_within_brackets_or_quotes_belongs_to_the_value():
    assert split_values("[a, b],[c]") == ["[a, b]", "[c]"]
    assert split_values('{a: 1, b: [2, 3]},"x,y"') == ["{a: 1, b: [2, 3]}", '"x,y"']


@pytest.mark.slow
@given(st.lists(st.text(alphabet="ab01.-[]{}\"' ", max_size=8), min_size=1, max_size=5))
def test_joined_again_the_values_are_the_text(parts):
    text = ",".join(parts)
    assert ",".join(split_values(text)) == text


def test_how_the_runs_ended_is_told_and_which_have_not_begun(capsys):
    tell_end({"one": 0, "two": 1, "a b": 0}, ["one", "two", "a b", "four"])
    said = capsys.readouterr().out
    assert "two ended with exit code 1." in said
    assert "four has not begun." in said
    assert "rlft compare one 'a b'" in said
