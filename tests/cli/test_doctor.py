"""`rlft doctor` as a program reads it."""

import json
import platform

from typer.testing import CliRunner

from cli.app import app


def test_as_json_it_prints_what_the_table_shows_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setenv("RLFT_HOME", str(tmp_path / ".rlft"))
    for name in ("ZENML_LOGGING_VERBOSITY", "TRANSFORMERS_VERBOSITY", "MLFLOW_LOGGING_LEVEL"):
        monkeypatch.setenv(name, "ERROR")
    done = CliRunner().invoke(app, ["doctor", "--verify", "--json"])
    said = json.loads(done.stdout)
    assert {"state": "ok", "what": f"Python {platform.python_version()}", "fix": ""} in said["findings"]
    assert done.exit_code == int(any(each["state"] == "broken" for each in said["findings"]))
    assert said["verified"] == {"artifacts": 0, "damages": [], "others": [], "problems": []}
