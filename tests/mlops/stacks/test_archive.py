"""Which files the pods of a stack are given: of the clone, of a repository of the user's own, and no others."""

import os
import re
import tarfile
from pathlib import Path

import pytest
from zenml.utils.code_utils import CodeArchive

from mlops.home.folder import PROJECT
from mlops.stacks import archive
from mlops.stacks.archive import archive_users_files, archived_files, is_archived
from rlft.errors import StackError
from tests.mlops.stacks.conftest import git, set_clone


def names() -> set[str]:
    return set(archived_files())


def test_a_users_own_repository_comes_beside_the_clone(folder):
    assert names() == {"rlft/__init__.py"}  # the folder is no repository
    git(folder, "init")
    (folder / ".gitignore").write_text("places.txt\n")
    own = {".gitignore", "config.yaml", "tasks.jsonl", "capitals.py", "shown.jsonl", "model/config.json"}
    assert names() == own | {
        "rlft/__init__.py"
    }  # the clone, which lies in the folder as another repository, is not twice
    assert archived_files()["tasks.jsonl"] == folder / "tasks.jsonl"


def test_of_two_files_of_one_name_rlfts_stays_and_the_other_is_not_held(folder):
    git(folder, "init")
    (folder / "rlft" / "tasks.jsonl").write_text("rlft's")
    files = archived_files()
    assert files["tasks.jsonl"] == folder / "rlft" / "tasks.jsonl"
    assert not is_archived(Path("tasks.jsonl"), files)
    assert is_archived(Path("capitals.py"), files)


def test_in_a_repository_within_the_clone_paths_are_named_from_it_on(folder, monkeypatch):
    own = folder / "rlft" / "own"
    own.mkdir()
    git(own, "init")
    (own / "tasks.jsonl").write_text("")
    monkeypatch.chdir(own)
    assert names() == {"rlft/__init__.py", "tasks.jsonl"}
    assert is_archived(Path("tasks.jsonl"), archived_files())


def test_names_with_spaces_and_letters_of_any_kind_come(folder, monkeypatch):
    (folder / "rlft" / "two words").mkdir()
    (folder / "rlft" / "two words" / "é\n.txt").write_text("")
    (folder / "rlft" / ".zen").mkdir()
    (folder / "rlft" / ".zen" / "config.yaml").write_text("")  # ZenML changes it at every start
    monkeypatch.chdir(folder / "rlft")
    assert names() == {"rlft/__init__.py", "two words/é\n.txt"}


def test_zenml_packs_the_same_files(folder, monkeypatch, tmp_path):
    monkeypatch.setattr(CodeArchive, "get_files", CodeArchive.get_files)  # put back after the test
    git(folder, "init")
    archive_users_files()
    with (tmp_path / "code.tar.gz").open("wb") as file:
        CodeArchive(root=str(folder / "rlft")).write_archive(file)
    with tarfile.open(tmp_path / "code.tar.gz") as packed_files:
        packed = packed_files.getnames()
    assert set(packed) >= {"capitals.py", "model/config.json", "rlft/__init__.py"}
    assert packed == sorted(packed)  # the archive's hash, by which it is uploaded once, is the same each time


def test_a_tracked_file_that_was_removed_is_left_out(folder, monkeypatch):
    clone = folder / "rlft"
    (clone / "gone.py").write_text("")
    git(clone, "add", ".")
    (clone / "gone.py").unlink()
    monkeypatch.chdir(clone)
    assert names() == {"rlft/__init__.py"}


def test_what_is_no_clone_would_be_uploaded_whole_and_is_refused(folder, monkeypatch):
    (folder / "unpacked").mkdir()
    (folder / "unpacked" / "file").write_text("")
    set_clone(monkeypatch, folder / "unpacked")
    with pytest.raises(StackError, match=r"git knows no files of rlft's folder.*"):
        archived_files()
    monkeypatch.setattr(archive, "_git", lambda *_: "")
    set_clone(monkeypatch, folder / "rlft")
    with pytest.raises(StackError, match="git must be installed"):
        archived_files()


def test_paths_that_lead_elsewhere_in_a_pod_are_not_held(folder):
    git(folder, "init")
    (folder / "link.txt").symlink_to("places.txt")
    (folder / "out.txt").symlink_to("/etc/hostname")
    (folder / "unknown").write_text("")
    (folder / ".gitignore").write_text("unknown\nmodel/weights\n")
    files = archived_files()
    held = {
        name: is_archived(Path(name), files) for name in ("link.txt", "out.txt", "unknown", "./places.txt", "model")
    }
    assert held == {"link.txt": True, "out.txt": False, "unknown": False, "./places.txt": True, "model": True}
    assert not is_archived(folder / "places.txt", files)  # absolute
    assert not is_archived(Path("..", folder.name, "places.txt"), files)
    (folder / "model" / "weights").write_text("")  # of a folder all must come
    assert not is_archived(Path("model"), archived_files())
    (folder / "empty").mkdir()
    assert not is_archived(Path("empty"), files)  # git knows no empty folders


def test_below_the_clone_paths_are_named_otherwise_than_in_a_pod(folder, monkeypatch):
    below = folder / "rlft" / "below"
    below.mkdir()
    (below / "tasks.jsonl").write_text("")
    monkeypatch.chdir(below)
    assert not is_archived(Path("tasks.jsonl"), archived_files())
    os.chdir(folder / "rlft")
    assert is_archived(Path("below", "tasks.jsonl"), archived_files())


def test_what_the_guide_has_people_write_passwords_into_is_not_uploaded(tmp_path, monkeypatch):
    page = (PROJECT / "docs/guide/team.md").read_text()
    named = {*re.findall(r"@(\w+\.json)", page), *re.findall(r"--env-file (\S+)", page)}
    assert {"s3.json", "mlflow.json", "account.json", "compose.env"} <= named
    git(tmp_path, "init")
    for name in (*named, "mlruns/0/meta.yaml", "mlflow.db", "tasks.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / ".gitignore").write_text((PROJECT / ".gitignore").read_text())
    set_clone(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert names() == {".gitignore", "tasks.json"}
    removed = {name for line in re.findall(r"^rm (.*)$", page, re.MULTILINE) for name in line.split()}
    assert removed == {name for name in named if name.endswith(".json")}
