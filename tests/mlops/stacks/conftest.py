"""A folder of a user's own beside a clone of rlft, and a stack whose runs begin in pods."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

CONFIG = """
name: capitals
tasks: {source: jsonl, path: tasks.jsonl}
environment: {name: "capitals.py:Capitals", kwargs: {places: {file: places.txt}}}
policy: {model: model}
warm_start: {path: shown.jsonl, steps: 1}
"""


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=tester", "-c", "user.email=tester@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


def set_clone(monkeypatch, folder: Path) -> None:
    """Let this folder be that of rlft's clone."""
    from mlops.stacks import image

    monkeypatch.setattr(image, "PROJECT", folder)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of a user's own with all files of a run, from which the command is run. It is no repository."""
    (tmp_path / "config.yaml").write_text(CONFIG)
    for name in ("tasks.jsonl", "capitals.py", "places.txt", "shown.jsonl"):
        (tmp_path / name).write_text("")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "rlft" / "rlft").mkdir(parents=True)
    (tmp_path / "rlft" / "rlft" / "__init__.py").write_text("")
    git(tmp_path / "rlft", "init")
    monkeypatch.chdir(tmp_path)
    set_clone(monkeypatch, tmp_path / "rlft")
    return tmp_path


@pytest.fixture
def remote(monkeypatch):
    """The active stack, whose orchestrator has the flavor kubernetes."""
    from zenml.client import Client

    stack = SimpleNamespace(
        orchestrator=SimpleNamespace(flavor="kubernetes"),
        artifact_store=SimpleNamespace(flavor="s3"),
        step_operator=None,
        environment={},
        secrets=[],
        all_components=[],
        validate=lambda: None,
        requirements=lambda: {"kubernetes>=21.7,<26", "s3fs>2022.3.0,!=2025.3.1", "mlflow>=2.1.1,<4"},
    )
    monkeypatch.setattr(Client, "active_stack", stack)
    return stack
