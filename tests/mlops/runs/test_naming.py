"""The name of a run that was given none: which number it gets, and from whom it is kept."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from datetime import datetime

import pytest

from mlops.home.folder import PROJECT, Home
from mlops.home.processes import NameHeldError, claimed
from mlops.runs import labels as naming
from mlops.runs.labels import default_name, hold_free

HOLDER = """
import sys, time
from contextlib import ExitStack
from pathlib import Path
from mlops.home.folder import Home
from mlops.runs.labels import hold_free
with ExitStack() as held:
    print(*hold_free(Home(Path(sys.argv[1])), sys.argv[3:], None, held, begins=sys.argv[2] == "begins",
                     is_taken=lambda name: False), flush=True)
    time.sleep(60)
"""
DAY = datetime(2026, 11, 26, 3, 15)


@pytest.fixture(autouse=True)
def day(monkeypatch):
    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return DAY

    monkeypatch.setattr(naming, "datetime", Clock)


def hold(home, names, *taken, begins=True):
    """The names that are got while others have the `taken` ones; they are given back."""
    with ExitStack() as held:
        return hold_free(home, names, None, held, begins=begins, is_taken=taken.__contains__)


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ([], "mirror-2026-11-26"),
        (["seed=1"], "mirror-seed=1-2026-11-26"),
        (["environment.kwargs.api_key=hunter22"], "mirror-+1-2026-11-26"),
        (  # 8 + 1 + 13 + 1 + 17 + 1 + 18 = 59 characters, and ",+1" has no room
            ["a.steps=40", "a.batch_size=16", "a.tasks_per_round=8", "a.learning_rate=1e-3", "seed=1"],
            "mirror-steps=40,batch_size=16,tasks_per_round=8,+2-2026-11-26",
        ),
    ],
)
def test_it_is_the_experiment_what_differs_and_the_day(overrides, name):
    assert default_name("mirror", overrides) == name


def test_a_number_stands_behind_a_name_that_a_run_has(tmp_path):
    home = Home(tmp_path)
    assert hold(home, ["m"]) == ["m"]
    assert hold(home, ["m"], "m", "m-2") == ["m-3"]
    assert hold(home, ["m"], "m-2") == ["m"]  # the run of that name was removed
    assert hold(home, ["s", "a", "b"], "b", begins=False) == ["s-2", "a-2", "b-2"]


@pytest.mark.parametrize(("mode", "began"), [("begins", True), ("promises", False)])
def test_two_that_begin_at_once_get_different_names(tmp_path, mode, began):
    home = Home(tmp_path)
    command = [sys.executable, "-c", HOLDER, str(tmp_path), mode, "m", "n"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=PROJECT, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "m n\n"
        assert hold(home, ["n"]) == ["n-2"]
        assert hold(home, ["n"], begins=False) == ["n-2"]
        if began:
            with pytest.raises(NameHeldError), claimed(home, "n", None):
                pass
        else:  # the run of a sweep begins under the name that the sweep keeps for it
            with claimed(home, "n", None):
                pass
        other.kill()
    assert hold(home, ["n"]) == ["n"]
