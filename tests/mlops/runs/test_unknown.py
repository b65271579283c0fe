"""A name that means no run, or several, leads to the runs that may be meant."""

from __future__ import annotations

import pytest

from mlops.runs.listing import SweptRuns, unknown_run


@pytest.mark.parametrize(
    ("asked", "what", "fix"),
    [
        ("frist", "no run is called 'frist'", "did you mean first?"),
        ("se", "2 runs begin with 'se'", "name one: second, 'sev enth'"),
        ("fir", "no run is called 'fir'", "did you mean first?"),  # several attempts at it begin so
        ("x", "no run is called 'x'", "the newest runs are: first, second, 'sev enth'"),
    ],
)
def test_what_may_be_meant(asked, what, fix):
    error = unknown_run(asked, ["first", "second", "sev enth"])
    assert (error.what, error.where, error.fix) == (what, "RUN", fix)


def test_without_any_run():
    assert unknown_run("x", []).fix == "the newest runs are: none"


@pytest.mark.parametrize(
    ("swept", "what", "fix"),
    [
        (
            SweptRuns(["rates-a=1,b", "rates-a=2", "rates-a=3"], ["rates-a=1,b", "rates-a=3"]),
            "'rates' is a sweep of 3 runs, and no run",
            "name one of its runs, such as rates-a=1,b. All side by side: rlft compare rates-a=1,b rates-a=3",
        ),
        (SweptRuns(["x 1"], ["x 1"]), "'rates' is a sweep, and no run", "name its run, 'x 1'"),
        (
            SweptRuns(["x"] * 21, ["x"] * 21),
            "'rates' is a sweep of 21 runs, and no run",
            "name one of its runs, such as x; `rlft runs` lists them",
        ),
    ],
)
def test_the_name_of_a_sweep_leads_to_its_runs(swept, what, fix):
    # Runs of a sweep may begin with its name, or not.
    for names in (["rates-a=1,b", "rates-a=2"], ["other"]):
        error = unknown_run("rates", names, sweeps={"rates": swept})
        assert (error.what, error.where, error.fix) == (what, "RUN", fix)
    assert "sweep" not in unknown_run("rate", ["rates-a=2"], sweeps={"rates": swept}).what
