"""Two runs begin together in a new home; then its databases are damaged in every way, and each command says so."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mlops.home.databases import MLFLOW, ZENML
from tests.e2e.conftest import TINY, Home

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]


@pytest.fixture(scope="module")
def pair(make_home) -> Home:
    """Two equal runs that were started together in a home that was not there."""
    home = make_home("pair")
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(home.module, "cli", "run", str(TINY), "--name", name) for name in ("first", "second")]
    for run in runs:
        assert run.result().returncode == 0, run.result().stdout + run.result().stderr
        assert "UNIQUE" not in run.result().stderr
    return home


def cut(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip(file):
    content = bytearray(file.read_bytes())
    begin = len(content) // 3
    content[begin : begin + 64] = bytes(255 - byte for byte in content[begin : begin + 64])
    file.write_bytes(bytes(content))


def test_two_that_begin_together_both_end_and_leave_one_challenger(pair):
    versions, aliases = pair.query("""
found = mlflow_client.search_model_versions("name = 'tiny'")
print(json.dumps([sorted(int(v.version) for v in found), mlflow_client.get_registered_model("tiny").aliases]))
""")
    assert versions == [1, 2]
    assert int(aliases["challenger"]) == 2
    assert pair.query("print(json.dumps(sorted(run.name for run in client.list_pipeline_runs())))") == [
        "first",
        "second",
    ]


@pytest.mark.parametrize(
    ("database", "damage"),
    [(ZENML, flip), (ZENML, cut), (ZENML, Path.unlink), (MLFLOW, cut)],
    ids=["zenml-flipped", "zenml-cut", "zenml-deleted", "mlflow-cut"],
)
def test_each_command_says_what_is_lost_and_the_restored_home_works(pair, database, damage):
    root = pair.folder / ".rlft"
    file = root / database.path
    damage(file)
    commands = [["doctor"], ["run", str(TINY)]] if database is ZENML and damage is cut else []
    commands += [["ui"]] if database is MLFLOW else [["resume", "first"]]
    for command in commands:
        said = pair.rlft(*command)
        assert said.code == 1, said.output
        assert "this database is" in " ".join(said.output.split())
        assert "Traceback" not in said.output
        assert "unexpected" not in said.output
    shown = pair.rlft("show", "second", "0")
    assert shown.code == 0, shown.output  # by the run's table of artifacts where ZenML's database is damaged
    assert "32 rollouts of r000" in shown.output
    restored = pair.rlft("doctor", "--restore")
    assert restored.code == 0, restored.output
    assert "is the copy of 20" in " ".join(restored.output.split())


def test_settings_of_zenml_are_made_again(pair):
    cut(pair.folder / ".rlft" / "zenml" / "config.yaml")
    resumed = pair.rlft("resume", "first")
    assert resumed.code == 2, resumed.output
    assert "is made again from the database" in resumed.output
    assert "has finished" in resumed.output


def test_what_is_lost_with_its_copies_begins_anew(pair):
    root = pair.folder / ".rlft"
    shutil.rmtree(root / "backups")
    (root / MLFLOW.path).write_bytes(b"")
    restored = pair.rlft("doctor", "--restore")
    assert restored.code == 0, restored.output
    assert "is made anew: nothing of it could be read" in " ".join(restored.output.split())
    again = pair.rlft("run", str(TINY), "--name", "third")
    assert again.code == 0, again.output
    assert again.summary["promotion"]["version"] == "1"
