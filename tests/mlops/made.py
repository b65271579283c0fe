"""What ZenML would say of a run, and a home that has the files of one."""

from __future__ import annotations

from datetime import datetime
from types import SimpleNamespace
from typing import Any

from mlops.ids import Stored
from mlops.runs.store import LocalRun
from rlft.files import make_seal


def make_run(run_id: str, name: str, began: datetime = datetime(2025, 1, 1), pipeline: str = "train", **given: Any):
    """Return what ZenML's client would return for an attempt at a run that was begun with these parameters."""
    config = SimpleNamespace(parameters=given)
    kind = SimpleNamespace(name=pipeline)
    return SimpleNamespace(id=run_id, name=name, created=began, start_time=began, pipeline=kind, config=config)


def put(run: LocalRun, stored: Stored, name: str, content: bytes, **facts: Any) -> None:
    """Let a run have stored this content at the call of this name."""
    step = stored.step_id(name)
    folder = run.home.root / "artifacts" / run.name / step / stored.output
    folder.mkdir(parents=True)
    (folder / stored.file).write_bytes(content)
    files = {key: list(each) for key, each in make_seal("", {stored.file: content}).files.items()}
    known = {"place": str(folder.relative_to(run.home.root)), "files": files}
    began = f"2025-01-01T00:00:{len(run.steps):02}+00:00"
    before = run.steps.get(step, {"outputs": {}})["outputs"]
    outputs = {**before, stored.output: known}
    run.keep_steps({**run.steps, step: {"id": step, "began": began, "cached": False, "outputs": outputs, **facts}})
