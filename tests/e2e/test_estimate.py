"""What `rlft estimate` says of a machine and a config."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import TINY


def _estimated(result):
    assert result.code == 0, result.output
    return json.JSONDecoder().raw_decode(result.output[result.output.index("{\n") :])[0]  # what is said besides follows


@pytest.mark.slow
def test_a_probe_leaves_nothing_behind(make_home):
    home = make_home("probed", new=True)
    before = sorted(home.folder.iterdir())
    found = _estimated(home.rlft("estimate", str(TINY), "--json", "--seconds", "400"))
    assert sorted(home.folder.iterdir()) == before
    assert "a probe of" in found["basis"][0]
    assert "a round of 32 attempts, where one of the run has 32" in found["basis"][0]
    assert all(0 <= stage["low"] <= stage["high"] for stage in found["stages"].values())
    assert found["memory"]["verdict"] == "fits"


@pytest.mark.slow
def test_a_config_that_could_not_start_is_not_probed(make_home):
    home = make_home("unready", new=True)
    done = home.rlft("estimate", str(TINY), "--set", "policy.device=cuda", "--set", "environment.name=nowhere:Gone")
    assert done.code == 2
    assert "nowhere" in done.output
    assert not (home.folder / ".rlft").exists()
