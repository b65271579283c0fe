"""What code imports, by its text."""

from pathlib import Path

from packaging.requirements import Requirement

from mlops.stacks.archive import imported_by
from mlops.stacks.image import wrong_packages

CODE = """
from __future__ import annotations
import os.path, numpy.linalg as linalg
from typing import TYPE_CHECKING
import rlft
from beside import word
from . import near
if TYPE_CHECKING:
    import only_for_types
else:
    import no_types
try:
    import faster
except ImportError:
    import json as faster
else:
    import with_it
try:
    import needed
except OSError:
    pass
def inside():
    import within.deep
"""


def test_what_is_needed_is_found_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "package").mkdir()
    file = tmp_path / "package" / "code.py"
    file.write_text(CODE)
    (tmp_path / "package" / "beside.py").write_text("import pandas")  # a file's folder is searched
    (tmp_path / "package" / "near.py").write_text("from package import code")  # so is the working directory; a circle
    found = imported_by([file])
    assert {path.resolve() for path in found.files} == {file, *(file.with_name(f"{n}.py") for n in ("beside", "near"))}
    assert set(found.packages) == {"numpy", "no_types", "with_it", "needed", "within", "pandas"}
    assert found.packages["pandas"] == str(file.with_name("beside.py"))


def test_a_file_that_is_no_python_imports_nothing(tmp_path):
    (tmp_path / "broken.py").write_text("import (")
    (tmp_path / "rows.jsonl").write_text("import numpy")
    assert imported_by([tmp_path / "broken.py", tmp_path / "rows.jsonl"]).packages == {}


def test_a_package_of_another_name_than_its_module_is_known():
    # PyYAML provides `yaml`; what is installed here is what requirements/base.txt pins.
    assert wrong_packages({"yaml": "a.py"}, [Requirement("pyyaml>=1")]) == []
    [said] = wrong_packages({"yaml": "a.py"}, [Requirement("numpy")])
    assert said == "a.py imports yaml, which the image will not have (it is of pyyaml)"
    [said] = wrong_packages({"yaml": "a.py"}, [Requirement("PyYAML==1.0")])
    assert said.startswith("a.py imports yaml, of which ")
    assert said.endswith(" is here and the image will have PyYAML==1.0")


def test_a_build_of_the_same_version_is_the_same():
    # torch is installed as 2.13.0+cpu where there is no GPU, and pinned as 2.13.0.
    from importlib.metadata import version

    pinned = version("torch").partition("+")[0]
    assert wrong_packages({"torch": "a.py"}, [Requirement(f"torch=={pinned}")]) == []


def test_files_are_named_as_they_were_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("code.py").write_text("import nowhere_at_all")
    assert imported_by([Path("code.py")]).packages == {"nowhere_at_all": "code.py"}
