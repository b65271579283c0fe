"""What a run needs and the pods of a stack will not have, file by file and package by package."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlops.home.folder import PROJECT
from mlops.stacks.archive import lacking_files
from mlops.stacks.image import lacking_packages
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


def packages(config: Config) -> list[str]:
    problems = lacking_packages(config)
    return [line.strip() for problem in problems for line in problem.what.splitlines()[1:]]


def test_every_file_of_a_folder_that_is_no_repository_is_named_with_its_setting(folder):
    config = config_of(folder)
    assert set(files(config)) == {f"{setting}: {name}" for setting, name in NAMED.items()}
    [problem] = lacking_files(config)
    assert str(folder / "rlft") in problem.fix
    git(folder, "init")
    assert files(config) == []


def test_what_lies_in_the_clone_is_held_when_the_command_is_run_there(folder, monkeypatch):
    git(folder, "init")
    set_clone(monkeypatch, folder)
    assert files(config_of(folder)) == []


def test_a_file_that_git_ignores_is_lacking(folder):
    git(folder, "init")
    (folder / ".gitignore").write_text("*.jsonl\n")
    assert set(files(config_of(folder))) == {"tasks.path: tasks.jsonl", "warm_start.path: shown.jsonl"}


def test_so_is_a_file_that_code_imports(folder):
    git(folder, "init")
    (folder / "capitals.py").write_text("import helper\n")
    (folder / "helper.py").write_text("from deeper import word\n")
    (folder / "deeper.py").write_text("")
    (folder / ".gitignore").write_text("deeper.py\n")
    assert files(config_of(folder)) == ["imported: deeper.py"]


def test_a_file_that_is_nowhere_is_lacking_and_one_of_a_volume_is_not(folder):
    git(folder, "init")
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


def test_the_shipped_configs_name_nothing_that_is_lacking(monkeypatch, remote):
    monkeypatch.chdir(PROJECT)
    for name in ("demo", "calculator"):
        config = load_config(PROJECT / "configs" / f"{name}.yaml")
        assert (files(config), packages(config)) == ([], [])


def test_packages_that_are_installed_here_are_in_the_image_or_missing(folder, remote):
    (folder / "capitals.py").write_text("import json, numpy, yaml, pytest, nowhere_at_all\n")  # PyYAML provides yaml
    config = config_of(folder)
    assert packages(config) == ["capitals.py imports pytest, which is of pytest"]
    (folder / "requirements.txt").write_text("PyTest>=1  # of its own\n")
    assert packages(config) == []


@pytest.mark.slow
def test_an_environment_of_an_installed_package_needs_it_in_the_image(folder, monkeypatch, remote):
    place = folder / ".venv" / "site-packages"
    (place / "shop_of_a_user-2.0.dist-info").mkdir(parents=True)
    (place / "shop_of_a_user-2.0.dist-info" / "METADATA").write_text("Name: shop-of-a-user\nVersion: 2.0\n")
    (place / "shop_of_a_user-2.0.dist-info" / "top_level.txt").write_text("shop_of_a_user\n")
    (place / "shop_of_a_user.py").write_text("")
    monkeypatch.syspath_prepend(place)
    config = config_of(folder, "environment.name=shop_of_a_user:Shop")
    assert packages(config) == ["environment.name imports shop_of_a_user, which is of shop-of-a-user"]
    (folder / "requirements.txt").write_text("Shop.of_a_user==2.0\n")
    assert packages(config) == []


def test_what_an_image_holds_that_exists_is_not_guessed(folder, monkeypatch, remote):
    (folder / "capitals.py").write_text("import pytest\n")
    monkeypatch.setenv("RLFT_IMAGE", "registry.example/rlft:1")
    assert packages(config_of(folder)) == []
