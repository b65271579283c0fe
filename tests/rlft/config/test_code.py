"""The files of code that a config names, of which nothing is run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rlft.config.code import Code, code_of
from rlft.config.file import load_config
from rlft.environments import gsm8k
from tests.e2e.conftest import TINY

SHIPPED = "rlft.environments.gsm8k:GSM8K"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, with packages whose import fails, one of them without an `__init__.py`."""
    for name in ("sums/__init__.py", "sums/easy/__init__.py", "sums/hard.py", "plain/sub.py", "alone.py"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("raise RuntimeError('this was run')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)  # `python -m pytest` sets it
    return tmp_path


def codes(*overrides):
    return list(code_of(load_config(TINY, [f"environment.name={SHIPPED}", "environment.kwargs={}", *overrides])))


@pytest.mark.parametrize(
    ("module", "file"),
    [("alone", "alone.py"), ("sums", "sums/__init__.py"), ("sums.hard", "sums/hard.py"),
     ("sums.easy", "sums/easy/__init__.py"), ("plain.sub", "plain/sub.py"), ("plain", None), ("sums.nothing", None),
     ("nothing.at.all", None), (".sums", None), ("__main__", None)],
)  # fmt: skip
def test_a_module_is_found_in_the_working_directory_without_running_its_packages(folder, module, file):
    (code,) = codes(f"environment.name={module}:Sums")
    assert code == Code("environment.name", folder / file if file else None, is_module=True)


def test_a_shipped_environment_is_found_and_a_shipped_loss_is_no_file():
    assert codes("training.loss_type=dapo") == [Code("environment.name", Path(gsm8k.__file__), is_module=True)]


def test_files_are_found_as_they_are_named_in_all_settings(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    functions = "environment.kwargs.a={b: [alone.py:f, gone.py:f, 'sums.hard:f', 'in short: yes', alone.py]}"
    found = codes("environment.name=gone.py:Sums", "training.loss_type=~/alone.py:Mine", functions)
    assert found == [
        Code("environment.name", Path("gone.py"), is_module=False),
        Code("training.loss_type", folder / "alone.py", is_module=False),
        Code("environment.kwargs", Path("alone.py"), is_module=False),
    ]


def test_the_functions_of_a_specification_are_found(folder):
    spec = "{criteria: {f: {says: f, grader: {type: function, function: 'alone.py:f'}}}}"
    assert codes(f"reward.spec={spec}")[1:] == [Code("reward.spec", Path("alone.py"), is_module=False)]
