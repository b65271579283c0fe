"""Which libraries a command imports: each of the heavy ones costs every call of it seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.e2e.conftest import ROOT, TINY

HEAVY = [
    "datasets",
    "mlflow",
    "pandas",
    "peft",
    "ray",
    "reasoning_gym",
    "scipy",
    "torch",
    "transformers",
    "vllm",
    "zenml",
]
PROGRAM = f"""
import json, sys
from cli.__main__ import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    code = end.code
print(json.dumps([code, sorted(set({HEAVY}) & set(sys.modules))]))
"""
THREADS = """
import os
from cli.__main__ import main
try:
    main(["--help"])
except SystemExit:
    print(os.environ["OMP_WAIT_POLICY"])
"""


def imported(folder, *arguments) -> tuple[int, list[str]]:
    """Exit code and heavy libraries of a command that runs in `folder`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ZENML_", "RLFT_"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.stdout, done.stderr
    code, libraries = json.loads(done.stdout.splitlines()[-1])
    return code, libraries


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        (0, ["--help"]),
        (0, ["doctor"]),
        (0, ["runs"]),
        (0, ["prune", "--keep-last", "1"]),
        (2, ["delete", "absent"]),
        (2, ["ui"]),  # nothing has been tracked
        (0, ["environments", "new", "cups"]),
        (2, ["run", TINY, "--set", "environment.name=nowhere:Thing"]),
        (2, ["estimate", TINY, "--set", "environment.name=nowhere:Thing"]),
        (2, ["run", TINY, "--set", "tasks={source: jsonl, path: absent.jsonl}"]),
    ],
)
def test_these_need_none_of_them(tmp_path, code, arguments):
    if arguments == ["doctor"] and sys.platform == "linux":
        from rlft.estimation.machine import why_no_gpu

        if why_no_gpu() is None:
            pytest.skip("no sure answer without torch: there is a driver for a GPU")
    assert imported(tmp_path, *arguments) == (code, [])


@pytest.mark.slow
@pytest.mark.parametrize("said", [None, "ACTIVE"])
def test_threads_wait_without_spinning_unless_the_user_says_otherwise(said):
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    environment |= {"PYTHONPATH": str(ROOT)} | ({"OMP_WAIT_POLICY": said} if said else {})
    done = subprocess.run([sys.executable, "-c", THREADS], env=environment, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == (said or "PASSIVE")


def test_registering_a_stack_needs_zenml_alone(tmp_path):
    (tmp_path / "broken.yaml").write_text("name: broken\n")
    assert imported(tmp_path, "stack", "broken.yaml") == (2, ["zenml"])


def test_tables_and_reports_are_read_without_torch():
    program = "import sys, json, materializers.report, materializers.tables; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(HEAVY) & set(json.loads(done.stdout.splitlines()[-1])) == {"zenml"}
