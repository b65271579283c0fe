"""How the image of a stack is made, and that a stack that builds one runs only what it will hold."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from zenml.client import Client

from mlops.clone import PROJECT
from mlops.runs.labels import Labels
from mlops.runs.starting import replay_options, run_options
from mlops.schedules.cluster import cluster_options
from mlops.stacks import image
from mlops.stacks.image import check_image, files_of, image_settings
from pipelines.train import train
from rlft.config.file import load_config
from rlft.errors import StackError
from rlft.schedule.settings import ScheduleConfig
from tests.e2e.conftest import TINY

CONFIG = """
name: capitals
tasks: {source: jsonl, path: tasks.jsonl}
environment: {name: "capitals.py:Capitals", kwargs: {places: {file: places.txt}}}
policy: {model: model}
warm_start: {path: shown.jsonl, steps: 1}
"""
NAMED = {
    "tasks.path": "tasks.jsonl",
    "environment.name": "capitals.py",
    "environment.kwargs": "places.txt",
    "policy.model": "model",
    "warm_start.path": "shown.jsonl",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of a user's own with all files of a run, from which the command is run."""
    (tmp_path / "config.yaml").write_text(CONFIG)
    for name in ("tasks.jsonl", "capitals.py", "places.txt", "shown.jsonl"):
        (tmp_path / name).write_text("")
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(image, "PROJECT", tmp_path / "rlft")
    (tmp_path / "rlft").mkdir()
    return tmp_path


@pytest.fixture(autouse=True)
def remote(monkeypatch):
    """The active stack has an orchestrator of this flavor."""
    stack = SimpleNamespace(orchestrator=SimpleNamespace(flavor="kubernetes"), step_operator=None)
    monkeypatch.setattr(Client, "active_stack", stack)
    return stack


def test_every_file_of_a_users_own_folder_is_named_with_its_setting(folder):
    with pytest.raises(StackError) as refused:
        check_image(load_config(folder / "config.yaml"))
    listed = {line.strip() for line in refused.value.what.splitlines()[1:]}
    assert listed == {f"{setting}: {name}" for setting, name in NAMED.items()}
    assert str(image.PROJECT) in (refused.value.fix or "")


def test_what_lies_in_the_clone_is_held_when_the_command_is_run_there(folder, monkeypatch):
    monkeypatch.setattr(image, "PROJECT", folder)
    check_image(load_config(folder / "config.yaml"))


def test_a_path_that_leads_elsewhere_from_there_is_not_held(folder, monkeypatch):
    monkeypatch.setattr(image, "PROJECT", folder)
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    (folder / "below" / "tasks.jsonl").write_text("another file of this name")
    with pytest.raises(StackError) as refused:
        check_image(load_config(folder / "config.yaml"))
    assert refused.value.what.splitlines()[1:] == ["  tasks.path: tasks.jsonl"]


def test_a_local_orchestrator_builds_no_image(folder, remote):
    remote.orchestrator.flavor = "local"
    check_image(load_config(folder / "config.yaml"))


def every_kind_of_options() -> list[dict]:
    """What the pipelines of runs, replays, schedules of a cluster and evaluations are called with."""
    config, labels = load_config(TINY), Labels(name="first")
    schedule = ScheduleConfig(name="weekly", config=str(TINY), cron="0 4 * * mon", stack="gpu")
    return [
        run_options(config, labels),
        replay_options("first", "tiny", labels),
        cluster_options(schedule, config),
        {"settings": image_settings()},
    ]


def test_an_image_has_what_is_pinned_and_a_compiler(remote):
    for options in every_kind_of_options():
        docker = options["settings"]["docker"]
        assert (docker.requirements, docker.apt_packages) == (str(image.PINS), ["gcc", "libc6-dev"])
        assert docker.python_package_installer.value == "uv"
        assert train.with_options(**options).configuration.docker_settings == docker


def test_where_no_image_is_made_there_are_no_settings_of_one(remote):
    # With them ZenML asks at each step for the whole stack of calls, which took more than a third of a short run.
    remote.orchestrator.flavor = "local"
    assert not any("docker" in options["settings"] for options in every_kind_of_options())
    remote.step_operator = SimpleNamespace(flavor="sagemaker")  # makes an image for the steps that it runs
    assert all("docker" in options["settings"] for options in every_kind_of_options())


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
def test_code_is_named_that_does_not_come_with_rlft(folder, monkeypatch, setting, name, file):
    (folder / "sums").mkdir()
    (folder / "sums" / "__init__.py").write_text("raise RuntimeError('this is not run')")
    (folder / "sums" / "arithmetic.py").write_text("")
    monkeypatch.setattr(image, "PROJECT", PROJECT)
    config = load_config(
        folder / "config.yaml", ["environment.name=rlft.environments.gsm8k:GSM8K", f"{setting}={name}"]
    )
    named = {setting: path for setting, path in files_of(config) if setting not in NAMED or path.suffix == ".py"}
    setting = setting.removesuffix(".rewards")
    assert {key: path.resolve() for key, path in named.items()} == ({setting: folder / file} if file else {})


def test_the_shipped_configs_name_nothing_that_is_not_held(monkeypatch):
    monkeypatch.chdir(PROJECT)
    check_image(load_config(PROJECT / "configs" / "demo.yaml"))
    check_image(load_config(PROJECT / "configs" / "calculator.yaml"))


def test_a_path_that_is_not_here_may_be_one_of_a_volume(folder, monkeypatch):
    monkeypatch.setattr(image, "PROJECT", folder)
    check_image(load_config(folder / "config.yaml", ["policy.model=/volumes/models/qwen", "policy.from_scratch=null"]))


def test_an_rlft_without_its_clone_has_nothing_to_make_an_image_of(folder, monkeypatch):
    monkeypatch.setattr(image, "PROJECT", folder)
    monkeypatch.setattr(image, "PINS", folder / "requirements" / "base.txt")
    with pytest.raises(StackError, match="installed without one"):
        check_image(load_config(folder / "config.yaml"))


def test_a_package_that_is_installed_in_the_clone_is_not_held(folder, monkeypatch):
    packages = folder / ".venv" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "shop_of_a_user.py").write_text("")
    monkeypatch.syspath_prepend(packages)
    monkeypatch.setattr(image, "PROJECT", folder)
    config = load_config(folder / "config.yaml", ["environment.name=shop_of_a_user:Shop"])
    with pytest.raises(StackError, match=r"environment\.name: .*shop_of_a_user\.py"):
        check_image(config)


def test_a_relative_path_that_leads_out_of_the_clone_is_not_held(folder, monkeypatch):
    clone = folder / "clone"
    clone.mkdir()
    monkeypatch.chdir(clone)
    monkeypatch.setattr(image, "PROJECT", clone)
    assert image.is_held(Path("../tasks.jsonl")) is False
    (clone / "tasks.jsonl").write_text("")
    assert image.is_held(Path("tasks.jsonl")) is True
