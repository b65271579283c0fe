"""A process in a bare copy: what it inherits, and what is said when it fails; tests/e2e begins real runs in one."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from mlops.stacks.rehearsal import Rehearsal, of_the_store, pod_variables
from rlft.errors import StackError


@pytest.fixture
def copy(tmp_path):
    for name in ("app", "venv/bin"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "sh").symlink_to("/bin/sh")
    return Rehearsal(tmp_path, {"PATH": "/usr/bin:/bin", "MINE": "1"}, [])


def test_nothing_of_this_process_is_inherited(copy, monkeypatch):
    monkeypatch.setenv("RLFT_SECRET_OF_TEST", "s")
    copy.begin(["sh", "-c", "env; pwd; echo fine >&2"], {"ADDRESS": "2"})
    copy.check()
    said = set(copy.log.read_text().split()) - {"SHLVL=0", "_=/usr/bin/env"}
    assert said == {"PATH=/usr/bin:/bin", "MINE=1", "ADDRESS=2", f"PWD={copy.app}", str(copy.app), "fine"}


def test_a_failure_is_told_by_the_last_error(copy):
    copy.absent.append("s3fs")
    first = "Traceback (most recent call last):\n  File x\nValueError: first\n\n"
    trace = f"{first}Traceback:\n  File y\na.B: second\n    more\n"
    copy.begin(["sh", "-c", f"printf '{trace}'; exit 45"], {})
    with pytest.raises(StackError) as failed:
        copy.check()
    said, *shown = failed.value.what.splitlines()
    assert said == "the rehearsal ended with exit code 45; not installed here, and so not in the copy: s3fs"
    assert shown == ["  a.B: second", "      more"]
    assert failed.value.where == str(copy.log)


def test_what_was_never_begun_did_not_end_well(copy):
    with pytest.raises(StackError, match="exit code None"):
        copy.check()


def test_of_a_whole_secret_come_the_variables_that_the_config_names(monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", "from here")
    monkeypatch.setenv("OTHER_KEY", "not asked for")
    monkeypatch.delenv("ABSENT", raising=False)
    for sources, expected in (([{"secretRef": {"name": "rlft"}}], {"JUDGE_KEY": "from here"}), ([], {})):
        pod = SimpleNamespace(env=[], env_from=sources, volume_mounts=[])
        settings = SimpleNamespace(orchestrator_pod_settings=pod)
        assert pod_variables(settings, Path("/copy"), named={"JUDGE_KEY", "ABSENT"}) == expected


def test_the_store_is_used_with_what_lets_this_machine_in(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert of_the_store() == {}
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text("[default]\n")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    assert of_the_store() == {"AWS_CONFIG_FILE": str(tmp_path / ".aws" / "config"), "AWS_ACCESS_KEY_ID": "k"}
    monkeypatch.setenv("AWS_CONFIG_FILE", "/elsewhere")
    assert of_the_store()["AWS_CONFIG_FILE"] == "/elsewhere"


def test_variables_of_pods_come_from_the_stack_and_secrets_from_here(monkeypatch):
    monkeypatch.setenv("KEY", "from here")
    monkeypatch.delenv("ABSENT", raising=False)
    secret = {"valueFrom": {"secretKeyRef": {"name": "n", "key": "k"}}}
    env = [{"name": "A", "value": "1"}, {"name": "KEY", **secret}, {"name": "ABSENT", **secret}]
    env += [{"name": "HF_HOME", "value": "/cache/hub"}, {"name": "OTHER", "value": "/cached"}]
    pod = SimpleNamespace(env=env, env_from=[], volume_mounts=[{"name": "cache", "mountPath": "/cache"}])
    assert pod_variables(SimpleNamespace(orchestrator_pod_settings=pod), Path("/copy")) == {
        "A": "1",
        "KEY": "from here",
        "HF_HOME": "/copy/cache/hub",
        "OTHER": "/cached",  # nothing is written to a /cache of this machine
    }
    assert pod_variables(SimpleNamespace(orchestrator_pod_settings=None), Path("/copy")) == {}
    assert pod_variables(SimpleNamespace(), Path("/copy")) == {}
