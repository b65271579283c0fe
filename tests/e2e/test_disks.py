"""Disks that fill up or turn read-only under a run: a sentence each, and a run that goes on."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.e2e.conftest import ROOT, Home
from tests.needs import need

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]

SENTENCE = "nothing more can be written: the disk is full, or has become read-only"


@pytest.fixture(scope="module")
def ends(tmp_path_factory) -> dict[str, tuple[int, str]]:
    """How each command ended: its exit code and its output."""
    unshare = ["unshare", "--map-root-user", "--mount"]
    may = subprocess.run([*unshare, "true"], capture_output=True, check=False)
    need(may.returncode == 0, "user namespaces", "sysctl kernel.unprivileged_userns_clone=1")
    folder = tmp_path_factory.mktemp("disks")
    command = [*unshare, sys.executable, "-m", "tests.e2e.disks", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=Home(ROOT).environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", ["full", "read-only"])
def test_it_is_a_sentence_with_a_way_out(ends, case):
    code, output = ends[case]
    said = " ".join(output.split())
    assert code == 1, output
    assert said.count("error ") == 1, output
    assert SENTENCE in said
    assert "then `rlft resume small`" in said
    assert "Traceback" not in output
    assert "sqlite3" not in output
    assert len(output.splitlines()) <= 12, output  # of which four are told before


def test_a_home_that_is_read_only_from_the_start_is_refused(ends):
    code, output = ends["still read-only"]
    assert code == 1, output
    assert "no folder can be made or written there" in output
    assert "Traceback" not in output


def test_the_run_goes_on_when_there_is_room(ends):
    code, output = ends["resumed"]
    assert code == 0, output
    assert "Registry when the run ended: tiny version 1" in " ".join(output.split())
