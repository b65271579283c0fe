"""The servers of a team as compose.yaml describes them, read without Docker; tests/team runs their commands."""

from __future__ import annotations

import base64
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
import yaml

from tests.e2e.conftest import ROOT
from tests.team.servers import described

TEXT = (ROOT / "compose.yaml").read_text()
COMPOSE = yaml.safe_load(TEXT)
SERVICES = COMPOSE["services"]
OPTIONAL = set(re.findall(r"\$\{(\w+):-", TEXT))
LASTING = {name: service for name, service in SERVICES.items() if "profiles" not in service}


def pinned(file: str, package: str) -> str:
    text = (ROOT / "requirements" / file).read_text()
    return re.search(rf"^{package}(?:\[\w+\])?==(\S+)$", text, re.MULTILINE)[1]


def test_the_services_are_those_that_the_guide_names():
    assert set(LASTING) == {"postgres", "s3", "mlflow", "zenml"}
    assert set(SERVICES) - set(LASTING) == {"buckets"}


@pytest.mark.parametrize("package", ["zenml", "mlflow"])
def test_servers_and_clients_have_the_same_versions(package):
    version = pinned("base.txt", package)
    assert pinned("team-servers.txt", package) == version
    assert f"{package}-{version}" in COMPOSE["x-servers"]["image"]
    assert f"{package}==" + version in (ROOT / "requirements" / "team-servers.in").read_text().replace("[server]", "")


@pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
def test_images_are_pinned(service):
    name, _, tag = service["image"].rpartition(":")
    assert name
    assert re.search(r"\d", tag)
    assert tag != "latest"
    if build := service.get("build"):
        first = build["dockerfile_inline"].splitlines()[0]
        assert re.fullmatch(r"FROM python:3\.\d+\.\d+-slim-\w+", first)
        copied = re.search(r"^COPY (\S+)", build["dockerfile_inline"], re.MULTILINE)[1]
        assert (ROOT / build["context"] / copied).is_file()


@pytest.mark.parametrize("service", LASTING.values(), ids=LASTING)
def test_what_lasts_has_a_health_check_and_is_begun_again(service):
    assert service["healthcheck"]["test"][0] == "CMD"
    assert service["restart"] == "unless-stopped"
    assert all(each["condition"] == "service_healthy" for each in service.get("depends_on", {}).values())
    assert set(service.get("depends_on", {})) <= set(LASTING)


@pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
def test_ports_are_open_to_this_machine_alone(service):
    for port in service.get("ports", []):
        assert re.fullmatch(r"\$\{RLFT_TEAM_ADDRESS:-127\.0\.0\.1\}:\d+:\d+", port)


def test_ports_are_those_of_the_guide():
    page = (ROOT / "docs" / "guide" / "team.md").read_text()
    [line] = [line for line in page.splitlines() if line.startswith("export RLFT_ZENML_URI")]
    told = {each.split("=")[0]: each.rsplit(":", 1)[1] for each in shlex.split(line)[1:]}
    open_at = {name: SERVICES[name]["ports"][0].split(":")[-2] for name in ("zenml", "mlflow", "s3")}
    assert told == {f"RLFT_{name.upper()}_URI": port for name, port in open_at.items()}


def test_passwords_come_from_a_file_that_is_not_in_git():
    wanted = set(re.findall(r"\$\{(\w+)", TEXT)) - OPTIONAL
    lines = (ROOT / "compose.env.example").read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert wanted == set(given)
    assert set(given.values()) == {""}
    assert "compose.env" in (ROOT / ".gitignore").read_text().splitlines()
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|SECRET_|_KEY$", name):
                assert re.fullmatch(r"\$\{\w+:\?set it in compose\.env\}", value)


def test_what_may_be_set_stands_in_the_example_and_in_the_guide_and_reaches_its_service():
    example = (ROOT / "compose.env.example").read_text()
    assert set(re.findall(r"^# ([A-Z_]+)=\S+$", example, re.MULTILINE)) == OPTIONAL
    guide = (ROOT / "docs" / "guide" / "team.md").read_text()
    assert set(re.findall(r"`([A-Z_]+)`", guide)) >= OPTIONAL
    assert "MLFLOW_SERVER_ALLOWED_HOSTS" in SERVICES["mlflow"]["environment"]


@pytest.mark.slow
def test_zenmls_database_shows_no_secret(tmp_path):
    """With the variables of its server, which keeps them where a client without a server keeps its own."""
    _, variables, _ = described("zenml", {"/data": str(tmp_path)})
    create = "Client().create_secret('mlflow', {'password': 'ANNAS-PASSWORD'}, private=True)"
    code = f"from zenml.client import Client\n{create}"
    places = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=variables | places, check=True, cwd=tmp_path, capture_output=True)
    with closing(sqlite3.connect(tmp_path / "zenml.db")) as database:
        [(stored,)] = database.execute('SELECT "values" FROM secret').fetchall()
    assert b"ANNAS" not in base64.b64decode(stored)


def test_volumes_and_files_that_services_name_are_described():
    named = [volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])]
    assert sorted(named) == sorted(COMPOSE["volumes"])
    files = [each["source"] for service in SERVICES.values() for each in service.get("configs", [])]
    assert sorted(files) == sorted(COMPOSE["configs"])
