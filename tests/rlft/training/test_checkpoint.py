"""Supervised training that was cut off goes on from its last checkpoint, to the same bytes."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import time
from types import SimpleNamespace

import pytest
import safetensors
import torch
from safetensors.torch import load_file, save_file

from rlft.files import file_hash
from rlft.models import load_policy, save_policy
from rlft.training import checkpoint as sft_checkpoint
from rlft.training import imitation as warm_start
from rlft.training.checkpoint import OLD_SECONDS, Checkpoints, remove_old
from tests.factories import make_lora_policy, make_policy, save_base
from tests.rlft.training.test_supervised import SUMS, sft

EVERY_STEP = {"every_seconds": 0.0, "share": 1e9}


class Killed(BaseException):
    """In place of a signal: nothing in between handles it."""


def kill_at(step):
    def progress(done, total, what, **figures):
        if what == "steps" and done == step:
            raise Killed

    return progress


def start_of(tmp_path, **options):
    """A stored policy; each call of what this gives is a process that loads it afresh."""
    folder = save_policy(make_policy(**options), tmp_path / "start")
    return lambda: load_policy(folder, torch.device("cpu"))


def cut_off(load, checkpoints, step, **options):
    with pytest.raises(Killed):
        sft(load(), progress=kill_at(step), checkpoints=checkpoints, **options)


def files(folder):
    return sorted(file.name for file in folder.rglob("*") if file.is_file())


@pytest.fixture
def taken(monkeypatch):
    """Grows by one entry for every step that is taken."""
    steps = []
    original = warm_start.Imitator.step

    def counting(*arguments):
        steps.append(1)
        original(*arguments)

    monkeypatch.setattr(warm_start.Imitator, "step", counting)
    return steps


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_cut_off_and_resumed_is_the_same_bytes_as_left_alone(dtype, tmp_path, taken):
    load = start_of(tmp_path, dtype=dtype)
    alone = load()
    expected = sft(alone, steps=12)
    checkpoints = tmp_path / "checkpoints"
    cut_off(load, Checkpoints(checkpoints, **EVERY_STEP), 7, steps=12)
    assert len(taken) == 12 + 7
    resumed = load()
    found = sft(resumed, steps=12, checkpoints=Checkpoints(checkpoints, **EVERY_STEP))
    assert len(taken) == 12 + 12
    assert (found.losses, found.learning_rates, found.grad_norms, found.loss) == (
        expected.losses,
        expected.learning_rates,
        expected.grad_norms,
        expected.loss,
    )
    saved = [save_policy(policy, tmp_path / name).metadata for name, policy in (("a", alone), ("b", resumed))]
    assert saved[0].weights_hash == saved[1].weights_hash
    assert saved[0].content_hash == saved[1].content_hash


def test_an_adapter_goes_on_too(tmp_path):
    base = save_base(tmp_path / "base")
    folder = save_policy(make_lora_policy(base), tmp_path / "start")
    alone, again = (load_policy(folder, torch.device("cpu")) for _ in range(2))
    sft(alone, steps=6)
    cut_off(lambda: load_policy(folder, torch.device("cpu")), Checkpoints(tmp_path / "c", **EVERY_STEP), 4, steps=6)
    sft(again, steps=6, checkpoints=Checkpoints(tmp_path / "c", **EVERY_STEP))
    assert all(torch.equal(p, again.trainable()[name]) for name, p in alone.trainable().items())


def test_seconds_go_on_where_they_were_and_checkpoints_are_not_counted(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(warm_start, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    original = warm_start.Imitator.step

    def one_second(*arguments):
        now[0] += 1
        original(*arguments)

    monkeypatch.setattr(warm_start.Imitator, "step", one_second)

    def writing(*arguments):  # a checkpoint takes ten seconds
        now[0] += 10
        return write(*arguments)

    write = sft_checkpoint._write
    monkeypatch.setattr(sft_checkpoint, "_write", writing)
    load = start_of(tmp_path)
    told = []

    def progress(done, total, what, **figures):
        told.append((done, total, what))
        if (done, what) == (4, "s"):
            raise Killed

    made = lambda: Checkpoints(tmp_path / "c", clock=lambda: now[0], **EVERY_STEP)  # noqa: E731
    with pytest.raises(Killed):
        sft(load(), steps=None, seconds=6, progress=progress, checkpoints=made())
    assert [report for report in told if report[2] == "s"] == [(n, 6, "s") for n in range(5)]
    now[0] = 1e6  # another process, later
    report = sft(load(), steps=None, seconds=6, checkpoints=made())
    assert (report.steps, report.seconds) == (6, 6)


def test_a_damaged_checkpoint_is_refused_with_a_line_and_training_begins_anew(tmp_path, caplog, taken):
    load, folder = start_of(tmp_path), tmp_path / "c"
    cut_off(load, Checkpoints(folder, **EVERY_STEP), 4)
    (file,) = folder.rglob("*.safetensors")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1  # the last bit of the last number
    file.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        policy = load()
        report = sft(policy, checkpoints=Checkpoints(folder))
    assert "is damaged and not used" in caplog.text
    assert len(taken) == 4 + 5
    alone = load()
    assert sft(alone).losses == report.losses
    assert not file.exists()


STATE = json.dumps({"seconds": 1.0, "losses": [1.0], "learning_rates": [1.0], "grad_norms": [1.0]})
FOREIGN = {
    "no state": lambda tensors: (tensors, None),
    "a state that is no JSON": lambda tensors: (tensors, {"state": "{"}),
    "a state of another version": lambda tensors: (tensors, {"state": '{"step": 3}'}),
    "a weight too many": lambda tensors: ({**tensors, "parameter/other": torch.zeros(2)}, {"state": STATE}),
    "a weight too few": lambda tensors: (dict(list(tensors.items())[1:]), {"state": STATE}),
    "another shape": lambda tensors: ({**tensors, min(tensors): torch.zeros(2, 3, 4)}, {"state": STATE}),
}


@pytest.mark.parametrize("make", FOREIGN.values(), ids=FOREIGN)
def test_a_checkpoint_of_something_else_is_refused_and_changes_nothing(make, tmp_path, caplog, taken):
    load, folder = start_of(tmp_path), tmp_path / "c"
    cut_off(load, Checkpoints(folder, **EVERY_STEP), 4)
    (file,) = folder.rglob("*.safetensors")
    tensors, metadata = make(load_file(file))
    file.unlink()
    foreign = file.with_name("foreign")
    save_file(tensors, foreign, metadata=metadata)
    foreign.rename(file.with_name(f"{file_hash(foreign)}.safetensors"))
    policy = load()
    report = sft(policy, checkpoints=Checkpoints(folder))
    assert "is damaged and not used" in caplog.text
    assert len(taken) == 4 + 5
    assert sft(load()).losses == report.losses


def test_what_else_lies_there_is_no_reason_to_fail(tmp_path):
    load, folder = start_of(tmp_path), tmp_path / "c"
    cut_off(load, Checkpoints(folder, **EVERY_STEP), 3)
    (stage,) = folder.iterdir()
    (stage / "notes.partial").write_text("not named after a process")
    (stage / "folder.safetensors").mkdir()
    (stage / "folder.partial").mkdir()
    report = sft(load(), checkpoints=Checkpoints(folder, **EVERY_STEP))
    assert report.losses == sft(load()).losses


def test_another_stage_does_not_take_it(tmp_path, taken):
    load, folder = start_of(tmp_path), tmp_path / "c"
    cut_off(load, Checkpoints(folder, code="a", **EVERY_STEP), 4)
    others = [
        ({"learning_rate": 1e-3}, "a", SUMS),
        ({"seed": 1}, "a", SUMS),
        ({"steps": 6}, "a", SUMS),
        ({}, "b", SUMS),
        ({}, "a", SUMS[:-1]),
    ]
    for options, code, shown in others:
        sft(load(), shown, checkpoints=Checkpoints(folder, code=code), **options)
    assert len(taken) == 4 + (5 + 5 + 6 + 5 + 5)
    other = save_policy(make_policy(seed=1), tmp_path / "other")
    sft(load_policy(other, torch.device("cpu")), checkpoints=Checkpoints(folder, code="a"))
    assert len(taken) == 30 + 5
    sft(load(), checkpoints=Checkpoints(folder, code="a"))
    assert len(taken) == 35 + 1  # the stage itself: four of its five steps are there


def test_weights_that_were_never_saved_have_no_identity_to_go_on_by(tmp_path):
    sft(make_policy(), checkpoints=Checkpoints(tmp_path / "c", **EVERY_STEP))
    assert not (tmp_path / "c").exists()


def test_checkpoints_come_each_minute_and_take_a_twentieth_of_the_time(tmp_path, monkeypatch):
    now, written = [0.0], []
    write = sft_checkpoint._write

    def writing(folder, optimizer, state):  # takes six seconds
        written.append(now[0])
        now[0] += 6
        write(folder, optimizer, state)

    monkeypatch.setattr(sft_checkpoint, "_write", writing)
    original = warm_start.Imitator.step

    def step(*arguments):  # takes ten seconds
        now[0] += 10
        original(*arguments)

    monkeypatch.setattr(warm_start.Imitator, "step", step)
    sft(start_of(tmp_path)(), steps=40, checkpoints=Checkpoints(tmp_path / "c", clock=lambda: now[0]))
    # the first is due after 60 s; each takes 6 s = 5 % of 120 s, so the next is due 120 s after its end
    assert written == [60, 60 + 6 + 120, 186 + 6 + 120]


def test_one_checkpoint_is_kept_and_none_after_the_result_is_stored(tmp_path):
    folder = tmp_path / "c"
    checkpoints = Checkpoints(folder, **EVERY_STEP)
    sft(start_of(tmp_path)(), checkpoints=checkpoints)
    (file,) = folder.rglob("*.safetensors")
    with safetensors.safe_open(file, framework="pt") as content:
        assert '"seconds"' in content.metadata()["state"]
    assert len(files(folder)) == 1
    checkpoints.remove()
    assert files(folder) == []


def test_what_is_told_is_what_is_safe(tmp_path):
    told = []
    checkpoints = Checkpoints(tmp_path / "c", saved=lambda state: told.append(list(state.losses)), **EVERY_STEP)
    report = sft(start_of(tmp_path)(), steps=3, checkpoints=checkpoints)
    assert told == [list(report.losses[:n]) for n in (1, 2, 3)]


def test_a_full_disk_is_a_warning(tmp_path, monkeypatch, caplog):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sft_checkpoint, "save_file", full)
    told = []
    report = sft(start_of(tmp_path)(), checkpoints=Checkpoints(tmp_path / "c", saved=told.append, **EVERY_STEP))
    assert report.steps == 5
    assert "No space left on device" in caplog.text
    assert told == []


def test_half_a_checkpoint_does_not_keep_the_disk_full(tmp_path, monkeypatch):
    def full(tensors, path, **_):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sft_checkpoint, "save_file", full)
    sft(start_of(tmp_path)(), checkpoints=Checkpoints(tmp_path / "c", **EVERY_STEP))
    assert files(tmp_path / "c") == []


def test_a_write_that_was_cut_off_leaves_the_one_before(tmp_path):
    load, folder = start_of(tmp_path), tmp_path / "c"
    cut_off(load, Checkpoints(folder, **EVERY_STEP), 3)
    (stage,) = folder.iterdir()
    dead = subprocess.Popen(["true"])
    dead.wait()
    (stage / f"{dead.pid}.partial").write_bytes(b"half")
    (stage / "1.partial").write_bytes(b"another process is writing it")  # number 1 is always alive
    report = sft(load(), checkpoints=Checkpoints(folder, **EVERY_STEP))
    assert report.losses == sft(load()).losses
    assert [name for name in files(folder) if name.endswith(".partial")] == ["1.partial"]


def test_a_run_that_does_all_anew_takes_nothing_from_earlier(tmp_path, taken):
    load, folder = start_of(tmp_path), tmp_path / "c"
    cut_off(load, Checkpoints(folder, **EVERY_STEP), 4)
    sft(load(), checkpoints=Checkpoints(folder, anew=True))
    assert len(taken) == 4 + 5
    assert files(folder) == []


def test_old_ones_go(tmp_path):
    for name, age in (("old", OLD_SECONDS + 60), ("new", OLD_SECONDS - 60)):
        file = tmp_path / name / "0.safetensors"
        file.parent.mkdir()
        file.touch()
        for path in (file, file.parent):
            os.utime(path, (time.time() - age,) * 2)
    remove_old(tmp_path)
    assert [folder.name for folder in tmp_path.iterdir()] == ["new"]
