"""docs/guide/first-real-model.md, walked through on a CPU: an adapter on bfloat16 weights of a stand-in."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from tests.e2e.conftest import ROOT, TINY

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]
PAGE = (ROOT / "docs" / "guide" / "first-real-model.md").read_text()
NAME = "stand-in"


@pytest.fixture(scope="module")
def registered(finished, make_home):
    """A home with a version of the stand-in: what `finished` trained, as a folder that `policy.model` names."""
    (policy,) = (finished[0].folder / ".rlft" / "mlflow-artifacts").rglob("artifacts/policy")
    home = make_home("first_real_model")
    for part in ("model", "tokenizer"):
        shutil.copytree(policy / part, home.folder / "model", dirs_exist_ok=True)
    (block,) = re.findall(r"```yaml\n(policy:.*?)```", PAGE, re.DOTALL)
    settings = yaml.safe_load(block)["policy"]
    assert set(settings) == {"model", "dtype", "lora"}
    settings |= {"model": "model", "revision": None}
    changes = {"name": NAME, "policy": settings, "warm_start": None, "training.rounds": 1, "evaluation.pass_at_k": True}
    options = [part for key, value in changes.items() for part in ("--set", f"{key}={json.dumps(value)}")]
    result = home.rlft("run", str(TINY), *options)
    assert result.code == 0, result.output
    return home, result.summary


def test_a_run_registers_the_adapter_with_its_reasons(registered):
    home, summary = registered
    assert summary["promotion"]["version"] == "1"
    assert summary["warm_start"] == {}
    assert summary["difference"] == summary["difference_base"]
    (policy,) = (home.folder / ".rlft" / "mlflow-artifacts").rglob("artifacts/policy")
    assert json.loads((policy / "policy.json").read_text())["kind"] == "adapter"


def test_start_and_trained_model_are_compared_at_several_attempts(registered):
    home, summary = registered
    curves = summary["pass_at_k"]
    # the twelve tasks of test, four times each, as the baseline attempts its own; more attempts never do worse
    assert (curves["tasks"], curves["errors"], len(curves["start"]), len(curves["trained"])) == (12, 0, 4, 4)
    assert curves["start"] == sorted(curves["start"])
    assert curves["difference_at_n"]["mean"] == pytest.approx(curves["trained"][-1] - curves["start"][-1])
    logged = home.query(f"""
found = mlflow_client.get_metric_history("{summary["mlflow_run_id"]}", "eval/trained/test/pass_at_1_to_n")
print(json.dumps([[point.step, point.value] for point in found]))
""")
    assert logged == [[k, pytest.approx(value)] for k, value in enumerate(curves["trained"], start=1)]


def test_the_keys_that_the_page_reads_are_in_the_summary(registered):
    _, summary = registered
    (step,) = re.findall(r"^## 3\. (.*?)^## ", PAGE, re.DOTALL | re.MULTILINE)
    named = re.findall(r"^\| `(\w+)(?:\.(\w+))?` \|", step, re.MULTILINE)
    assert ("baseline", "pass_at_k") in named
    for section, key in named:
        assert key in summary[section] if key else section in summary, (section, key)


def test_the_run_is_decided_on_once_more_and_its_version_is_served_as_the_page_says(registered):
    home, summary = registered
    (commands,) = re.findall(r"```bash\n(rlft promote.*?)```", PAGE, re.DOTALL)
    for command in commands.strip().splitlines():
        assert home.rlft(*shlex.split(command.replace("RUN", summary["pipeline_run_id"]))[1:]).code in (
            0,
            7,
        )  # which, the demo cannot promise
    moved = home.code(
        "from mlflow import MlflowClient\n"
        f"MlflowClient('sqlite:///.rlft/mlflow.db').set_registered_model_alias({NAME!r}, 'champion', '1')"
    )
    assert moved.returncode == 0, moved.stderr[-2000:]

    (block,) = re.findall(r"```console\n(export MLFLOW_TRACKING_URI.*?)```", PAGE, re.DOTALL)
    export, serve, curl = block.replace("\\\n", "").strip().splitlines()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    name, value = export.removeprefix("export ").split("=", 1)
    words = shlex.split(serve.replace("smollm2_notes", NAME).replace("5001", port))
    asked = curl.replace("5001", port).replace("Write 8 to 16 words about rain.", "1 + 2 =")
    address, *_, data = shlex.split(asked)[1:]
    scripts = Path(sys.executable).parent
    with (home.folder / "served.log").open("wb") as log:
        process = subprocess.Popen(
            [str(scripts / words[0]), *words[1:]],
            cwd=home.folder,
            env=home.environment() | {name: value, "PATH": f"{scripts}:{os.environ['PATH']}"},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            answer = ask(address, data, process)
        finally:
            process.terminate()
            process.wait(timeout=60)
    (text,) = answer
    assert isinstance(text, str)


def ask(address: str, data: str, process: subprocess.Popen[bytes]) -> list[str]:
    """What the server answers, once it is up."""
    request = urllib.request.Request(address, data.encode(), {"Content-Type": "application/json"})
    deadline = time.monotonic() + 300
    while True:
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as refused:
            raise AssertionError(refused.read().decode()) from refused
        except OSError:
            assert process.poll() is None, "the server ended; served.log says why"
            assert time.monotonic() < deadline, "the server did not answer"
            time.sleep(0.5)
