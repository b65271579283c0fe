"""Secrets of an environment: one that is written stops the run, one in a variable is in no file that a run leaves."""

from __future__ import annotations

import base64
import json
import re
import stat
import urllib.parse
from pathlib import Path

import pyarrow.parquet
import pytest
import yaml

from tests.e2e.conftest import TINY

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]

# An environment that is careless with what it is given, in every way in which an environment's text is kept.
VAULT = """
import json, logging
from rlft.environments.reasoning_gym import ReasoningGym

class Vault(ReasoningGym):
    def __init__(self, vault):
        super().__init__()
        self.vault = vault
        assert vault["headers"]["Authorization"].startswith("Bearer Kq"), "not read"
        assert vault["deep"][0]["more"][0]["model"].startswith("hf_")

    async def setup(self, task):
        logging.getLogger("httpx").error("GET %s", self.vault["url"])
        return {"vault": self.vault}

    async def compute_reward(self, completion, ground_truth):
        if completion.task.answer in ("2", "3", "4"):
            raise RuntimeError(f"no answer with {self.vault}")
        return await super().compute_reward(completion, ground_truth)

    async def teardown(self, rollout_id):
        raise RuntimeError(json.dumps(self.vault))
"""
SECRETS = {f"RLFT_TEST_{place}": f"Kq{place:02}x7Zq9Lm2-/+vault" for place in range(11)} | {
    "RLFT_TEST_11": "-----BEGIN PRIVATE KEY-----\nKq11/+vault\n-----END PRIVATE KEY-----",
    "RLFT_TEST_12": "hf_Kq12Kq12Kq12Kq12Kq12",
}


def vault(values: list[str]) -> dict:
    """Thirteen secrets in the forms in which they are given."""
    return {
        "headers": {"Authorization": f"Bearer {values[0]}", "X-API-Key": values[1]},
        "openai_key": values[2],
        "private_key": values[3],
        "pwd": values[4],
        "tokens": [values[5]],
        "connection_string": f"Server=db;Password={values[6]}",
        "url": f"https://example.invalid/?api_key={values[7]}",
        "database": f"postgresql://app:{values[8]}@db/facts",
        "second": f"redis://:{values[9]}@cache/0",
        "aws_secret_access_key": values[10],
        "pem": values[11],
        "deep": [{"more": [{"model": values[12]}]}],
    }


def write_config(folder: Path, values: list[str]) -> str:
    config = yaml.safe_load(TINY.read_text())
    config["environment"] = {"name": "vault.py:Vault", "kwargs": {"vault": vault(values)}}
    config["reward"] = {"audit": False}
    config["training"]["rounds"] = 1
    config["controls"] = []
    config["tracking"]["trace_every"] = 1
    (folder / "vault.yaml").write_text(yaml.safe_dump(config))
    return "vault.yaml"


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of every file below, those of compressed tables as text too."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            found[str(path)] = path.read_bytes()
            if path.suffix == ".parquet":
                found[f"{path} (read)"] = repr(pyarrow.parquet.read_table(path).to_pylist()).encode()
    return found


def forms(value: str) -> set[bytes]:
    coded = base64.b64encode(value.encode()).decode().rstrip("=")
    texts = (value, coded, json.dumps(value)[1:-1], urllib.parse.quote(value, safe=""), urllib.parse.quote_plus(value))
    return {text.encode() for text in texts}


def test_secrets_that_are_written_stop_the_run_and_are_nowhere(make_home):
    home = make_home("written")
    config = write_config(home.folder, list(SECRETS.values()))
    result = home.rlft("run", config)
    assert result.code == 2, result.output
    named = re.findall(r"environment\.kwargs\.vault\.([^ ,:]+)", " ".join(result.output.split()))
    assert sorted(named) == [
        "aws_secret_access_key", "connection_string", "database", "deep[0].more[0].model", "headers.Authorization",
        "headers.X-API-Key", "openai_key", "pem", "private_key", "pwd", "second", "tokens[0]", "url",
    ]  # fmt: skip
    assert "env:NAME" in result.output
    (home.folder / config).unlink()
    stored = contents(home.folder) | {"output": result.output.encode()}
    assert [name for name, data in stored.items() if b"Kq" in data] == []


def test_secrets_in_variables_reach_the_environment_and_no_file(make_home, monkeypatch):
    home = make_home("named")
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    (home.folder / "vault.py").write_text(VAULT)
    config = write_config(home.folder, [f"{{env:{name}}}" for name in SECRETS])
    result = home.rlft("run", config, "--verbose")
    assert result.code == 0, result.output[-5000:]
    assert result.summary["ledger"]["errored"] > 0  # whose messages held all of them
    stored = contents(home.folder) | {"output": result.output.encode()}
    found = {(place, name) for name, value in SECRETS.items() for form in forms(value)
             for place, data in stored.items() if form in data}  # fmt: skip
    assert found == set()
    # The search is not blind: the names of the variables are there, and what was said around the values.
    for file in ("mlflow.db", "zenml"):
        assert any(b"env:RLFT_TEST_12" in data for name, data in stored.items() if f".rlft/{file}" in name)
    assert any(b"no answer with {" in data for name, data in stored.items() if ".parquet (read)" in name)
    assert b"?api_key=***" in stored["output"]
    assert stat.S_IMODE((home.folder / ".rlft").stat().st_mode) == 0o700


def test_a_variable_that_is_not_set_is_named_before_anything_begins(make_home):
    home = make_home("unset", new=True)
    (home.folder / "vault.py").write_text(VAULT)
    config = write_config(home.folder, [f"{{env:{name}}}" for name in SECRETS])
    for command in (["run", config], ["audit", config]):
        result = home.rlft(*command)
        assert result.code == 2, result.output
        assert "environment.kwargs.vault.headers.X-API-Key needs the variable RLFT_TEST_1;" in " ".join(
            result.output.split()
        )
    assert not (home.folder / ".rlft").exists()
