"""A name that means no run, or several, leads to the runs that may be meant."""

from __future__ import annotations

import pytest

from mlops.runs.listing import unknown_run


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
