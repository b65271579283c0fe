"""Two runs begin together in a new home; then its databases are damaged, and each command says so."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

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
    ("database", "keep", "commands"),
    [
        (ZENML, 0.5, [("doctor",), ("run", str(TINY)), ("resume", "first")]),
        (MLFLOW, None, [("run", str(TINY)), ("ui",)]),
    ],
    ids=["zenml-cut", "mlflow-gone"],
)
def test_each_command_names_the_database_and_repairs_nothing(pair, database, keep, commands):
    file = pair.folder / ".rlft" / database.path
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * keep)]) if keep else file.unlink()
    left = file.read_bytes() if keep else None
    for command in commands:
        said = pair.rlft(*command)
        assert said.code == 1, said.output
        # doctor's table breaks the path where a line ends
        assert ("damaged" if command == ("doctor",) else file.name) in "".join(said.output.split())
        assert "Traceback" not in said.output
        assert "unexpected" not in said.output
    assert (file.read_bytes() if file.exists() else None) == left
    if database is ZENML:  # by the run's own table of artifacts
        shown = pair.rlft("show", "second", "0")
        assert (shown.code, "32 rollouts of r000" in shown.output) == (0, True)
    file.write_bytes(whole)
