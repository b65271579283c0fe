"""Models that are not there, templates that are none, and disks that are too small."""

from __future__ import annotations

import shutil
from collections import namedtuple
from pathlib import Path

import httpx
import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import save_file

from rlft.config import FromScratchConfig, KeepConfig, LoraSettings, PolicyConfig
from rlft.errors import PolicyError, StorageError
from rlft.readiness import device, policy
from rlft.readiness.device import check_device
from rlft.readiness.policy import check_chat_template, check_origin, check_room

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def model(tmp_path):
    """A folder with a model of 1,000 weights in two files."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    save_file({"a": torch.zeros(20, 30, dtype=torch.bfloat16)}, folder / "model-1.safetensors")
    save_file({"b": torch.zeros(400), "c": torch.zeros(())}, folder / "model-2.safetensors", {"format": "pt"})
    return folder


def refusal(check, *arguments) -> str:
    with pytest.raises((PolicyError, StorageError)) as caught:
        check(*arguments)
    return f"{caught.value.where}: {caught.value.what}"


def test_a_folder_without_a_model_is_named(model, tmp_path):
    check_origin(PolicyConfig(model=str(model)))
    (model / "config.json").unlink()
    assert "there is no config.json in the folder" in refusal(check_origin, PolicyConfig(model=str(model)))
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no config.json and no *.safetensors" in refusal(check_origin, PolicyConfig(model=str(empty)))


@pytest.mark.parametrize("name", ["./absent", "/absent/model", "~/absent", "a/b/c"])
def test_what_can_only_be_a_folder_is_not_looked_for_on_the_hub(name):
    folder = str(Path(name).expanduser()) if name[0] == "~" else name
    assert f"there is no folder {folder!r}" in refusal(check_origin, PolicyConfig(model=name))


def test_a_model_of_the_hub_must_be_in_the_cache_or_the_hub_must_give_it(monkeypatch, tmp_path):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(policy, "_in_cache", lambda settings: None)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    asked = []
    # 307: where the file lies; 503: it may answer in a moment; an adapter has no config.json
    good = [httpx.Response(200), httpx.Response(307), httpx.Response(503)]
    good.append(httpx.Response(404, headers={"X-Error-Code": "EntryNotFound"}))
    bad = [httpx.Response(401), httpx.Response(404), httpx.ConnectError("no network")]
    answers = iter([*good, *bad])

    def head(address, timeout, **_):
        asked.append(timeout)
        if isinstance(answer := next(answers), Exception):
            raise answer
        return answer

    monkeypatch.setattr(policy.httpx, "head", head)
    for _ in good:
        check_origin(PolicyConfig(model="owner/name"))
    for _ in bad:
        assert refusal(check_origin, PolicyConfig(model="owner/name")).startswith("policy.model: ")
    assert asked == [5.0] * 7  # one look each, where transformers tries for 32 s for each of its files
    refusal(check_origin, PolicyConfig(model="no name"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    said = refusal(check_origin, PolicyConfig(model="owner/name", revision="v1"))
    assert "'owner/name' at v1 is not in the hub's cache" in said
    monkeypatch.setattr(policy, "_in_cache", lambda settings: tmp_path)
    check_origin(PolicyConfig(model="owner/name"))


def test_a_template_is_a_shipped_one_or_a_file(tmp_path):
    (tmp_path / "own.jinja").write_text("{{ messages }}")
    for name in (None, "qwen3", str(tmp_path / "own.jinja")):
        check_chat_template(PolicyConfig(model="m", chat_template=name))
    said = refusal(check_chat_template, PolicyConfig(model="m", chat_template="qwen4"))
    assert said.startswith("policy.chat_template: 'qwen4' is no template")


@pytest.mark.parametrize(
    ("dtype", "last", "rounds", "needed"),
    [
        # 1,001 weights (600 + 400 + 1). float32: 4 bytes each, and trained ones have 8 of moments.
        ("float32", 2, 10, 1001 * (4 + 2 * 12)),
        ("float32", 5, 3, 1001 * (4 + 3 * 12)),  # no more than there are rounds
        ("bfloat16", 1, 10, 1001 * (2 + 1 * (2 + 8 + 4))),  # and a float32 master
    ],
)
def test_the_disk_must_hold_the_first_policy_and_the_newest(model, monkeypatch, tmp_path, dtype, last, rounds, needed):
    settings = PolicyConfig(model=str(model), dtype=dtype, keep=KeepConfig(last=last))
    home = tmp_path / "home"
    free = {"bytes": needed}
    monkeypatch.setattr(shutil, "disk_usage", lambda place: Usage(0, 0, free["bytes"]))
    check_room(settings, rounds, home)
    free["bytes"] = needed - 1
    assert refusal(check_room, settings, rounds, home).startswith(f"{tmp_path}: ")
    home.mkdir()
    (home / "policy").write_bytes(b"x")  # what is stored already may be one of these policies
    check_room(settings, rounds, home)


def test_adapters_and_models_from_scratch_need_no_disk_to_speak_of(model, monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "disk_usage", lambda place: Usage(0, 0, 0))
    check_room(PolicyConfig(model=str(model), lora=LoraSettings()), 5, tmp_path)
    check_room(PolicyConfig(from_scratch=FromScratchConfig(characters="ab")), 5, tmp_path)


@pytest.mark.parametrize(
    ("build", "library", "reason"),
    [
        ("2.13.0+cpu", True, "torch is built for CPUs alone"),
        ("2.13.0+cu130", False, "there is no NVIDIA driver"),
        ("2.13.0", False, "there is no NVIDIA driver"),
        ("2.13.0", True, None),  # torch itself must tell
        ("2.13.0+rocm7.0", False, None),
    ],
)
def test_a_gpu_is_ruled_out_without_torch_only_where_that_is_certain(monkeypatch, build, library, reason):
    def load(name):
        if not library:
            raise OSError(name)

    monkeypatch.setattr(device, "version", lambda name: build)
    monkeypatch.setattr(device.ctypes, "CDLL", load)
    assert device.why_no_gpu() == reason
    check_device("auto")
    check_device("cpu")
    if reason:
        assert refusal(check_device, "cuda") == f"policy.device: there is no GPU: {reason}"
    else:
        check_device("cuda")
