"""cli.sweep: what a sweep sets, and what is told at its end. With real runs: tests/e2e/test_sweep.py."""

from __future__ import annotations

import pytest

from cli.sweep import changes_of, run_sweep, tell_end
from rlft.errors import ConfigError
from tests.e2e.conftest import ROOT


def test_each_value_is_a_change():
    assert changes_of("training.rounds=1, 3") == ["training.rounds=1", "training.rounds=3"]


@pytest.mark.parametrize("sweep", ["seed", "seed=", "=1,2", "seed=0,,1", "seed=0,1,0"])
def test_what_is_no_sweep_is_refused(sweep):
    with pytest.raises(ConfigError, match=f"'{sweep}' is no sweep") as refused:
        changes_of(sweep)
    assert refused.value.where == "--sweep"
    assert refused.value.fix


def test_how_the_runs_ended_is_told_and_which_have_not_begun(capsys):
    tell_end({"one": 0, "two": 1, "a b": 0}, ["one", "two", "a b", "four"])
    said = capsys.readouterr().out
    assert "two ended with exit code 1." in said
    assert "four has not begun." in said
    assert "rlft compare one 'a b'" in said


def test_runs_that_would_be_called_alike_are_refused_before_the_first_begins():
    config, sweep = ROOT / "configs/demo.yaml", f"tracking.experiment={'x' * 60}a,{'x' * 60}b"
    with pytest.raises(ConfigError) as refused:
        run_sweep(config, [sweep], [], "tries", [])
    assert refused.value.where == "--sweep"
