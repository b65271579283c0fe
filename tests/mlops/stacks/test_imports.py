"""What code imports, by its text."""

from pathlib import Path

from mlops.stacks.archive import imported_by

CODE = """
from __future__ import annotations
import os.path, numpy.linalg as linalg
import rlft
from beside import word
from . import near
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
    files, others = imported_by([file])
    assert {path.resolve() for path in files} == {file, *(file.with_name(f"{n}.py") for n in ("beside", "near"))}
    assert set(others) == {"__future__", "os", "numpy", "within", "pandas"}
    assert Path(others["pandas"]).resolve() == file.with_name("beside.py")


def test_a_file_that_is_no_python_imports_nothing(tmp_path):
    (tmp_path / "broken.py").write_text("import (")
    (tmp_path / "rows.jsonl").write_text("import numpy")
    assert imported_by([tmp_path / "broken.py", tmp_path / "rows.jsonl"])[1] == {}


def test_files_are_named_as_they_were_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("code.py").write_text("import nowhere_at_all")
    assert imported_by([Path("code.py")])[1] == {"nowhere_at_all": "code.py"}
