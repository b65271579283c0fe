"""The packages of a stack's image."""

from pathlib import Path

import pytest
from packaging.requirements import Requirement

from mlops.home.folder import PINS
from mlops.stacks.image import image_requirements, read_requirements
from rlft.config.file import load_config
from tests.e2e.conftest import TINY


def asked(*overrides: str, flavors: set[str] | None = None) -> list[str]:
    return image_requirements(load_config(TINY, list(overrides)), flavors=flavors)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_an_image_has_the_pins_and_what_the_run_asks_for():
    base = asked()
    assert base == read_requirements(PINS)
    assert asked("rollout.engine=vllm") == [*base, "vllm==0.32.0"]
    with_ray = asked("distributed={engine: ray, trainers: 2}", "policy.device=cpu")
    assert "ray==2.60.0" in with_ray
    assert with_ray[: len(base)] == base
    assert asked("rollout.engine=vllm_server", "rollout.server.addresses=[http://gpu:8000]") == base
    for flavor, package in (("s3", "s3fs"), ("kubernetes", "kubernetes")):
        assert any(each.startswith(f"{package}==") for each in asked(flavors={flavor}))
    assert not any(each.startswith("s3fs") for each in base)


def test_no_two_of_all_these_contradict_each_other():
    everything = asked("rollout.engine=vllm", "distributed={engine: ray, trainers: 2}", flavors={"s3", "kubernetes"})
    asked_for = [Requirement(each) for each in everything]
    pins = {each.name: str(each.specifier)[2:] for each in asked_for if str(each.specifier).startswith("==")}
    assert [str(each) for each in asked_for if each.name in pins and not each.specifier.contains(pins[each.name])] == []


def test_the_users_own_are_read_from_the_working_directory():
    Path("requirements.txt").write_text("# mine\n\nshapely==2.1.2  # maps\nname[extra]>=1; python_version > '3'\n")
    assert asked()[-2:] == ["shapely==2.1.2", "name[extra]>=1; python_version > '3'"]
