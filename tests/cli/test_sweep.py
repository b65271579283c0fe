"""cli.sweep: which runs a sweep has, and what is told at its end. With real runs: tests/e2e/test_sweep.py."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.sweep import SweptRun, _tell, split_values, variations
from rlft.errors import ConfigError

KNOWN = {"name": "rates", "status": "killed"}


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


def test_how_the_runs_ended_is_told_although_the_summary_cannot_be_written(tmp_path, capsys):
    file = tmp_path / "file"
    file.touch()  # no folder, so that nothing can be written below it
    runs = [SweptRun("one", {"seed": "1"}, 1, None)]
    _tell(KNOWN, runs, ["one", "two"], file / "summary.json", as_json=False)
    said = capsys.readouterr()
    assert "one ended with exit code 1 (failed)." in said.out
    assert "two has not begun." in said.out
    assert "could not be written to" in said.err


def test_the_summary_of_a_sweep_names_the_runs_that_have_not_begun(tmp_path):
    _tell(KNOWN, [SweptRun("one", {}, 130, None)], ["one", "two", "three"], tmp_path / "s.json", as_json=False)
    kept = json.loads((tmp_path / "s.json").read_text())
    assert (kept["planned"], kept["not_begun"]) == (3, ["two", "three"])
    assert kept["runs"] == [
        {
            "name": "one",
            "changes": {},
            "status": "failed",
            "exit_code": 130,
            "pipeline_run_id": None,
            "mlflow_run_id": None,
            "difference": None,
        }
    ]
