"""Every artifact of a home's runs is read and compared with its hashes; what is damaged comes with a command."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path

import pytest

from cli.doctor import show_verified, verify_stored
from mlops.home.folder import Home
from mlops.runs.store import RunStore
from rlft.files import REMOVED, make_seal
from rlft.reporting.terminal import Terminal
from tests.mlops.made import make_run

POLICY = {"policy/policy.json": b"{}", "policy/model/model.safetensors": b"w", "policy/optimizer.safetensors": b"o"}


class Stored:
    """A home with a run that has stored artifacts, each by a step of its name."""

    def __init__(self, root):
        self.home = Home(root)
        self.run = RunStore(self.home).start(make_run("1", "first"), "first")

    def add(self, name, files, *, hashed=True):
        place = self.home.root / "zenml" / name
        for file, content in files.items():
            (place / file).parent.mkdir(parents=True, exist_ok=True)
            (place / file).write_bytes(content)
        hashes = {key: list(each) for key, each in make_seal("", files).files.items()} if hashed else {}
        made = {"place": f"zenml/{name}", "files": hashes}
        self.run.keep_steps({**self.run.steps, name: {"outputs": {"out": made}}})
        return place


def lost(verified) -> list[str]:
    """The names of what is damaged."""
    return [Path(damage["where"]).name for damage in verified["damages"]]


@pytest.fixture
def stored(tmp_path):
    return Stored(tmp_path / "home")


def test_what_is_whole_and_what_is_not(stored, capsys):
    table = stored.add("generate_rollouts_r000", {"rollouts.parquet": b"rows"})
    policy = stored.add("train_grpo_r000", POLICY)
    stored.add("other", {"report.json": b"{}"}, hashed=False)
    found = verify_stored(stored.home)
    assert (found["artifacts"], found["damages"]) == (3, [])
    other = RunStore(stored.home).start(make_run("2", "second", datetime(2025, 1, 2)), "second")
    other.keep_steps(stored.run.steps)  # it has taken them from the cache, which are no more artifacts
    (table / "rollouts.parquet").write_bytes(b"wors")
    (policy / "policy" / "optimizer.safetensors").unlink()
    verified = verify_stored(stored.home)
    assert (verified["artifacts"], lost(verified)) == (3, ["rollouts.parquet", "optimizer.safetensors"])
    assert "first` makes it again (train_grpo_r000)" in verified["damages"][1]["fix"]
    show_verified(verified, Terminal(width=40))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("damaged ")
    assert "`rlft resume first` makes it again (generate_rollouts_r000)" in lines[0]
    assert lines[2:] == ["3 artifacts; 2 files are damaged"]


def test_weights_that_retention_removed_are_not_missed(stored):
    policy = stored.add("train_grpo_r000", POLICY)
    (policy / "policy" / "optimizer.safetensors").unlink()
    (policy / "policy" / "model" / "model.safetensors").unlink()
    found = lost(verify_stored(stored.home))  # without the mark somebody else did it
    assert found == ["model.safetensors", "optimizer.safetensors"]
    (policy / REMOVED).touch()
    assert lost(verify_stored(stored.home)) == []


def test_an_artifact_that_is_gone_is_damage_with_hashes_or_without(stored):
    for name, hashed in (("a", True), ("b", False)):
        shutil.rmtree(stored.add(name, {"report.json": b"{}"}, hashed=hashed))
    assert lost(verify_stored(stored.home)) == ["a", "b"]


def test_a_home_without_runs_and_a_run_that_cannot_be_read(stored, tmp_path):
    assert verify_stored(Home(tmp_path / "none"))["artifacts"] == 0
    (stored.run.folder / "run.json").write_text("{")
    assert len(verify_stored(stored.home)["problems"]) == 1
