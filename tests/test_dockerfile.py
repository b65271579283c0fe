"""The image of pods as the Dockerfile describes it, read without Docker."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mlops.home.variables import ALWAYS
from mlops.stacks.image import image_requirements
from rlft.config.file import load_config
from tests.e2e.conftest import ROOT, TINY

TEXT = (ROOT / "Dockerfile").read_text()
LINES = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", TEXT, flags=re.MULTILINE)).splitlines()
STEPS = [line.split(maxsplit=1) for line in LINES if line.strip()]


def test_it_has_no_fault_that_hadolint_knows():
    program = Path(sys.executable).with_name("hadolint")
    done = subprocess.run(
        [program, "--failure-threshold", "style", ROOT / "Dockerfile"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_its_base_and_uv_are_pinned_as_elsewhere():
    [base] = [rest for name, rest in STEPS if name == "FROM"]
    assert base in (ROOT / "compose.yaml").read_text()
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", base)
    assert f"uv=={re.search(r'UV_VERSION := (.*)', (ROOT / 'Makefile').read_text())[1]} " in TEXT


def test_its_packages_are_those_that_a_run_may_ask_for(tmp_path, monkeypatch):
    copied = [
        word for name, rest in STEPS if name == "COPY" for word in rest.split() if word.startswith("requirements/")
    ]
    installed = re.findall(r"-r /opt/rlft/(requirements/\S+)", TEXT)
    assert copied == installed
    assert all((ROOT / file).is_file() for file in copied)
    lines = {line for file in copied for line in (ROOT / file).read_text().splitlines()}
    vllm = re.findall(r"vllm==\S+", TEXT)
    config = load_config(TINY, ["rollout.engine=vllm", "distributed={engine: ray, trainers: 2}"])
    monkeypatch.chdir(tmp_path)  # without a requirements.txt of a user's own
    assert lines | set(vllm) == set(image_requirements(config, flavors={"s3", "kubernetes"}))
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert ignored == ["*", "!requirements"]


def test_nothing_after_the_system_s_packages_is_done_as_root():
    users = [place for place, (name, _) in enumerate(STEPS) if name == "USER"]
    assert STEPS[users[0]][1] == "1000"
    assert [name for name, _ in STEPS[: users[0]]] == ["FROM", "RUN"]
    assert all("--chown=rlft" in rest for name, rest in STEPS if name == "COPY")


def test_its_variables_are_those_of_every_process():
    [variables] = [dict(each.split("=", 1) for each in rest.split()) for name, rest in STEPS if name == "ENV"]
    assert {name: variables.get(name) for name in ALWAYS} == ALWAYS
    # ZenML sets these two in the images that it makes.
    assert (variables["ZENML_CONFIG_PATH"], variables["ZENML_ENABLE_REPO_INIT_WARNINGS"]) == (
        "/app/.zenconfig",
        "False",
    )


@pytest.mark.skipif(shutil.which("docker") is None, reason="no Docker")
@pytest.mark.slow
def test_it_can_be_built():
    if subprocess.run(["docker", "info"], capture_output=True).returncode != 0:
        pytest.skip("no Docker daemon answers")
    subprocess.run(["docker", "build", "--tag", "rlft-test", "."], cwd=ROOT, check=True, timeout=1800)
