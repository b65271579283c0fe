"""`rlft export` on the MLflow of a home: the folder that comes out, and what is said where none can."""

from __future__ import annotations

import json

import pytest
import torch
from mlflow import MlflowClient
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner

from cli import app as cli
from mlops.home.folder import Home
from mlops.registry.logged_model import ServedFiles
from mlops.registry.versions import register_policy_version
from rlft.evaluation.promotion import Decision
from rlft.reporting import terminal
from tests.mlflow_stores import new_store
from tests.mlops.home.making import finish
from tests.rlft.models.exported_policies import stored, stories_policy


@pytest.fixture(scope="module")
def folder(tmp_path_factory, shared_data):
    """A working directory whose home has a champion: the small real model with an adapter."""
    folder = tmp_path_factory.mktemp("work")
    (folder / ".rlft").mkdir()
    client = MlflowClient(new_store(folder / ".rlft"))
    finish(Home(folder / ".rlft"))
    experiment = client.create_experiment("stories", artifact_location=f"file:{folder}/.rlft/mlflow-artifacts")
    policy = stored(stories_policy(shared_data / "model_stories260k" / "hf"), folder / "policy")
    run = client.create_run(experiment).info.run_id
    register_policy_version(
        client.tracking_uri, run, "stories", ServedFiles(policy.path), Decision(True, ("passes: base",))
    )
    return folder


@pytest.fixture
def rlft(folder, monkeypatch):
    """Gives a command in that directory."""
    monkeypatch.chdir(folder)
    for name in ("ZENML_LOGGING_VERBOSITY", "TRANSFORMERS_VERBOSITY", "MLFLOW_LOGGING_LEVEL"):
        monkeypatch.setenv(name, "ERROR")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///never-used.db")
    monkeypatch.delenv("RLFT_HOME", raising=False)
    monkeypatch.setattr(terminal.console, "_width", 100)
    monkeypatch.setattr(terminal.errors, "_width", 200)

    def run(*arguments):
        result = CliRunner().invoke(cli.make_app(), list(map(str, arguments)))
        assert "Traceback" not in result.output
        return result

    return run


def test_the_champion_merged(rlft, tmp_path, shared_data):
    done = rlft("export", "models:/stories@champion", "--to", tmp_path / "out", "--merge")
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert f"version 1 of stories is in {tmp_path / 'out'}, merged into {shared_data}" in said
    assert f"to serve it: vllm serve {tmp_path / 'out'} --dtype float32 --served-model-name stories" in said
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    with torch.no_grad():
        assert model(**tokenizer("Once upon a time", return_tensors="pt")).logits.isfinite().all()


def test_a_version_as_an_adapter_in_json(rlft, tmp_path):
    done = rlft("export", "stories/1", "--to", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert (said["name"], said["version"], said["alias"], said["form"]) == ("stories", "1", None, "adapter")
    assert said["folder"] == str(tmp_path / "out")
    record = json.loads((tmp_path / "out" / "rlft_export.json").read_text())
    assert {"folder": str(tmp_path / "out"), **record} == said


def test_an_adapter_says_how_it_is_served_and_that_its_base_is_here(rlft, tmp_path, shared_data):
    done = rlft("export", "stories@challenger", "--to", tmp_path / "out")
    said = " ".join(done.output.split())
    base = shared_data / "model_stories260k" / "hf"
    assert "the base is a folder of this machine" in said
    out = tmp_path / "out"
    assert (
        f"vllm serve {base} --dtype float32 --tokenizer {out} --generation-config {out} --enable-lora "
        f"--max-lora-rank 8 --lora-modules stories={out}"
    ) in said


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("stories", "names no version of a registered model"),
        ("stories@best", "name a version, or one of these aliases: challenger, champion"),
        ("stories/7", "there is no such version"),
        ("other@champion", "no registered model is called 'other' what to do: name one; there are: stories"),
        ("stories/x", "'x' is no number of a version"),
    ],
)
def test_what_is_not_there_is_said(rlft, tmp_path, version, said):
    done = rlft("export", version, "--to", tmp_path / "out")
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_not_empty_is_left_alone(rlft, tmp_path):
    (tmp_path / "mine.txt").write_text("x")
    done = rlft("export", "stories@champion", "--to", tmp_path)
    assert done.exit_code == 2
    assert "this is there already" in " ".join(done.output.split())


def test_files_that_have_changed_are_not_exported(rlft, folder, tmp_path):
    (file,) = (folder / ".rlft" / "mlflow-artifacts").rglob("adapter_model.safetensors")
    before = file.read_bytes()
    file.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    try:
        done = rlft("export", "stories@champion", "--to", tmp_path / "out")
    finally:
        file.write_bytes(before)
    assert done.exit_code == 1
    assert "the files have sha256" in done.output
    assert not (tmp_path / "out").exists()
