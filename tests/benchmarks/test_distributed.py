"""That the benchmark of several workers runs to its JSON line. No timing here."""

import json

import pytest

from benchmarks import distributed


@pytest.mark.slow
def test_one_line_says_what_two_workers_took_and_hold(capsys):
    distributed.main(["--json", "--model", "toy", "--prompt-tokens", "6", "--steps", "1", "--turns", "1"])
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["memory_share_2"] == pytest.approx(0.5, abs=0.02)
    assert report["parity"] < 1e-5
    assert report["ideal_2"] == 2.0  # eight groups of the same size
    assert 0 < report["peak_mib_2"] < 1000
    assert 0 < report["peak_mib_1"] < 1000
    assert {"speedup_2", "alone_2", "seconds_1", "seconds_2"} <= report.keys()
