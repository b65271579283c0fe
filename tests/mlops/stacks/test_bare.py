"""An environment of links: it has the packages that are asked for, theirs, and no others."""

import subprocess
from importlib.metadata import distribution

from packaging.requirements import Requirement

from mlops.stacks.bare import make_bare, with_dependencies


def asked(*texts: str) -> list[Requirement]:
    return [Requirement(text) for text in texts]


def test_it_has_what_is_asked_for_and_what_that_asks_for_and_nothing_else(tmp_path):
    wanted = asked("pandas", "not-installed-anywhere>=1", "another; python_version < '3'")
    programs, absent = make_bare(tmp_path / "venv", wanted, tmp_path)
    assert absent == ["not-installed-anywhere"]
    code = """
from importlib.util import find_spec
print(sorted(name for name in ("pandas", "numpy", "dateutil", "pytest", "rlft", "zenml") if find_spec(name)))
import pandas, importlib.metadata
print(int(pandas.Series([1, 2]).sum()), importlib.metadata.version("pandas"))
"""
    done = subprocess.run(
        [programs / "python", "-c", code], capture_output=True, text=True, env={}, cwd=tmp_path, check=True
    )
    # pandas asks for numpy and python-dateutil; pytest and zenml are installed here, and rlft lies in the clone.
    assert done.stdout.splitlines() == [
        "['dateutil', 'numpy', 'pandas']",
        f"3 {distribution('pandas').version}",
    ]


def test_a_folder_that_two_packages_share_has_the_files_of_the_wanted_one(tmp_path):
    # opentelemetry-api and opentelemetry-sdk both lie in the folder `opentelemetry`.
    programs, _ = make_bare(tmp_path / "venv", asked("opentelemetry-api"), tmp_path)
    code = "import opentelemetry.trace; import opentelemetry.sdk"
    done = subprocess.run([programs / "python", "-c", code], capture_output=True, text=True, env={})
    assert "No module named 'opentelemetry.sdk'" in done.stderr


def test_the_folder_app_is_another_one_for_its_processes(tmp_path):
    app = tmp_path / "elsewhere"
    programs, _ = make_bare(tmp_path / "venv", [], app)
    code = "import os; os.makedirs('/app', exist_ok=True); os.chdir('/app'); print(os.getcwd()); os.chdir('/tmp')"
    done = subprocess.run([programs / "python", "-c", code], capture_output=True, text=True, env={}, check=True)
    assert done.stdout.strip() == str(app)


def test_extras_count_where_they_are_asked_for():
    installed = {name: distribution(name) for name in ("zenml", "click", "sqlalchemy", "pydantic")}
    # ZenML asks for SQLAlchemy in its extra `local` alone.
    assert "sqlalchemy" not in with_dependencies(asked("zenml"), installed)
    assert {"sqlalchemy", "click", "zenml"} <= with_dependencies(asked("zenml[local]"), installed)
    assert with_dependencies(asked("absent"), installed) == set()
