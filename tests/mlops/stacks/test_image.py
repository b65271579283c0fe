"""How the image of a stack is made, and that a stack that builds one runs only what its pods will have."""

from types import SimpleNamespace
from typing import Any

import pytest
from zenml.exceptions import StackValidationError

from cli.replay import options_for
from mlops.home.folder import PINS, Home
from mlops.runs.labels import Labels
from mlops.runs.resuming import replay_options, run_options
from mlops.stacks.image import check_image, lacking_files, lacking_packages, pod_options
from pipelines.train import train
from rlft.config.file import load_config
from rlft.errors import NotReadyError, StackError
from tests.e2e.conftest import TINY
from tests.mlops.stacks.conftest import git, set_clone

pytestmark = pytest.mark.usefixtures("remote")


def every_kind_of_options() -> list[dict]:
    """What the pipelines of runs, replays and evaluations are called with."""
    config, labels = load_config(TINY), Labels(name="first")
    return [
        run_options(config, labels),
        replay_options("first", "tiny", labels, config),
        pod_options(),
    ]


def test_an_image_has_what_is_pinned_and_a_compiler(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pinned = [line for line in PINS.read_text().splitlines() if not line.startswith("#")]
    for options in every_kind_of_options():
        docker = options["settings"]["docker"]
        assert (docker.requirements[: len(pinned)], docker.apt_packages) == (pinned, ["gcc", "libc6-dev"])
        assert docker.python_package_installer.value == "uv"
        assert docker.environment["ZENML_PARAMETER_SIZE_THRESHOLD"] == "65536"
        assert train.with_options(**options).configuration.docker_settings == docker


def test_where_no_image_is_made_there_are_no_settings_of_one(remote):
    # With them ZenML asks at each step for the whole stack of calls, which took more than a third of a short run.
    remote.orchestrator.flavor = "local"
    assert not any("docker" in options["settings"] for options in every_kind_of_options())
    remote.step_operator = SimpleNamespace(flavor="sagemaker")  # makes an image for the steps that it runs
    assert all("docker" in options["settings"] for options in every_kind_of_options())


def test_only_in_kubernetes_a_step_may_be_tried_again(remote):
    # The next pod goes on with a step that an earlier one began if ZenML may make another attempt at it.
    assert {options["retry"].max_retries for options in every_kind_of_options()} == {3}
    remote.orchestrator.flavor = "vertex"
    assert {options["retry"] for options in every_kind_of_options()} == {None}


def test_an_image_that_exists_is_taken_as_it_is(monkeypatch):
    monkeypatch.setenv("RLFT_IMAGE", "registry.example/rlft:1")
    docker = pod_options(load_config(TINY))["settings"]["docker"]
    assert (docker.parent_image, docker.skip_build, docker.requirements) == ("registry.example/rlft:1", True, None)


def test_what_is_lacking_is_told(folder):
    (folder / "capitals.py").write_text("import json\nimport helper\nimport torch\n")
    (folder / "helper.py").write_text("def late():\n    import pytest\n")
    with pytest.raises(NotReadyError) as refused:
        check_image(load_config(folder / "config.yaml"))
    files, packages = refused.value.problems
    assert "environment.name: capitals.py" in files.what
    assert packages.what.splitlines()[1:] == ["  environment.name: pytest, which is of pytest"]


def test_a_replay_is_checked_too_and_its_image_is_for_its_config(folder):
    source: Any = SimpleNamespace(name="first")
    home, labels = Home(folder / ".rlft"), Labels(name="again")
    with pytest.raises(NotReadyError, match=r"environment\.name: capitals\.py"):
        options_for(home, source, labels, {}, load_config(folder / "config.yaml"))
    config = load_config(folder / "config.yaml", ["distributed={engine: ray, trainers: 2}"])
    docker = replay_options("first", "tiny", labels, config)["settings"]["docker"]
    assert any(line.startswith("ray==") for line in docker.requirements)


@pytest.mark.slow
def test_what_the_pods_will_have_is_not_refused(folder, monkeypatch):
    git(folder, "init")
    set_clone(monkeypatch, folder)
    monkeypatch.chdir(folder)
    (folder / "capitals.py").write_text("import pytest\n")
    config = load_config(folder / "config.yaml")
    assert len(lacking_packages(config)) == 1
    (folder / "requirements.txt").write_text("pytest==9.0.0  # which capitals.py imports\n")
    assert lacking_files(config) + lacking_packages(config) == []
    check_image(config)


def test_a_local_orchestrator_has_no_pods(folder, remote):
    config = load_config(folder / "config.yaml")
    with pytest.raises(NotReadyError):
        check_image(config)
    remote.orchestrator.flavor = "local"
    check_image(config)


@pytest.mark.parametrize("kind", [RuntimeError, StackValidationError])
def test_a_stack_that_zenml_does_not_take_here_is_refused_in_a_sentence(remote, kind):
    def refuse():
        raise kind("Could not load the Kubernetes configuration")

    remote.validate = refuse
    with pytest.raises(StackError, match="ZenML does not take the stack on this machine") as caught:
        check_image(load_config(TINY))
    assert "Could not load the Kubernetes configuration" in caught.value.what
    assert "kubectl config get-contexts" in caught.value.fix
