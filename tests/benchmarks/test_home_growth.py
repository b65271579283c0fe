"""That the benchmark runs to its JSON line. No timing here."""

import json

import pytest

from benchmarks import home_growth


@pytest.mark.slow  # four whole runs
def test_it_counts_rounds_and_runs(capsys: pytest.CaptureFixture[str]):
    assert home_growth.main(["--rounds", "2", "--runs", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    # ten rows at most, and one a round where there are fewer
    assert [row["rounds"] for row in found["rounds"]] == [1, 2]
    assert all(row["round_seconds"] > row["beside_seconds"] > 0 for row in found["rounds"])
    (first,) = found["runs"]
    assert first["runs"] == 0
    assert first["megabytes"] < found["megabytes_after_rounds"]
    assert set(found["commands"]) == {"show", "doctor", "runs"}
