"""What a run needs and the pods of a stack will not have, file by file."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlops.home.folder import PROJECT
from mlops.stacks.image import lacking_files
from rlft.config import Config
from rlft.config.file import load_config
from tests.mlops.stacks.conftest import git, set_clone

NAMED = {
    "tasks.path": "tasks.jsonl",
    "environment.name": "capitals.py",
    "environment.kwargs": "places.txt",
    "policy.model": "model",
    "warm_start.path": "shown.jsonl",
}


def config_of(folder: Path, *overrides: str) -> Config:
    return load_config(folder / "config.yaml", list(overrides))


def files(config: Config) -> list[str]:
    """The files that are said to be lacking."""
    return [line.strip() for problem in lacking_files(config) for line in problem.what.splitlines()[1:]]


def test_every_file_outside_the_clone_is_named_with_its_setting(folder, monkeypatch):
    config = config_of(folder)
    assert set(files(config)) == {f"{setting}: {name}" for setting, name in NAMED.items()}
    [problem] = lacking_files(config)
    assert str(folder / "rlft") in problem.fix
    git(folder, "init")
    set_clone(monkeypatch, folder)
    assert files(config) == []


def test_a_folder_that_is_no_repository_would_be_uploaded_whole(folder, monkeypatch):
    set_clone(monkeypatch, folder)
    [problem] = lacking_files(config_of(folder))
    assert ".venv too" in problem.what


def test_a_file_that_git_ignores_is_lacking(folder, monkeypatch):
    git(folder, "init")
    set_clone(monkeypatch, folder)
    (folder / ".gitignore").write_text("*.jsonl\n")
    assert set(files(config_of(folder))) == {"tasks.path: tasks.jsonl", "warm_start.path: shown.jsonl"}


def test_below_the_clone_paths_are_named_otherwise_than_in_a_pod(folder, monkeypatch):
    git(folder, "init")
    set_clone(monkeypatch, folder)
    (folder / "below").mkdir()
    (folder / "below" / "tasks.jsonl").write_text("")
    monkeypatch.chdir(folder / "below")
    assert "tasks.path: tasks.jsonl" in files(config_of(folder))


def test_a_file_that_is_nowhere_is_lacking_and_one_of_a_volume_is_not(folder, monkeypatch):
    git(folder, "init")
    set_clone(monkeypatch, folder)
    changes = ["tasks.path=gone.jsonl", "environment.name=gone.py:Gone", "policy.model=/volumes/models/qwen"]
    assert files(config_of(folder, *changes)) == [
        "environment.name: gone.py",
        "tasks.path: gone.jsonl",
    ]


@pytest.mark.parametrize(
    ("setting", "name", "file"),
    [
        ("environment.name", "rlft.environments.gsm8k:GSM8K", None),
        ("environment.name", "sums.arithmetic:Sums", "sums/arithmetic.py"),
        ("environment.name", "nowhere.at_all:Sums", None),
        ("training.loss_type", "capitals.py:Loss", "capitals.py"),
        ("environment.kwargs.rewards", "[capitals.py:exact]", "capitals.py"),
    ],
)
def test_code_is_named_that_does_not_come_with_rlft(folder, setting, name, file):
    (folder / "sums").mkdir()
    (folder / "sums" / "__init__.py").write_text("raise RuntimeError('this is not run')")
    (folder / "sums" / "arithmetic.py").write_text("")
    config = config_of(folder, "environment.name=rlft.environments.gsm8k:GSM8K", f"{setting}={name}")
    named = [line for line in files(config) if line.endswith(".py")]
    assert named == ([f"{setting.removesuffix('.rewards')}: {file}"] if file else [])


def test_the_shipped_configs_name_nothing_that_is_lacking(monkeypatch):
    monkeypatch.chdir(PROJECT)
    for name in ("demo", "calculator"):
        config = load_config(PROJECT / "configs" / f"{name}.yaml")
        assert files(config) == []
