"""That the pipeline and the plain loop beside it both do all their rounds."""

import json
import subprocess
import sys

import pytest

from tests.e2e.conftest import ROOT, TINY


@pytest.mark.slow
def test_both_sides_do_their_rounds():
    command = [sys.executable, "-m", "benchmarks.orchestration", "--json", "--config", str(TINY)]
    done = subprocess.run([*command, "--set", "training.rounds=1"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["rounds"], found["repeat"]) == (1, 1)
    assert found["seconds"] == pytest.approx(found["pipeline_seconds"] - found["plain_seconds"])
