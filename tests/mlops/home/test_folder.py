"""The folder of all runs is its owner's alone."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from mlops.home.folder import Home, find_home
from mlops.home.variables import use_own_setup
from rlft.errors import StorageError
from rlft.files import make_private


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def _usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_new_home_is_its_owners_alone_whatever_the_umask(tmp_path, umask):
    os.umask(umask)
    home = Home(tmp_path / "between" / "runs-of-mine")
    home.make()
    assert mode(home.root) == 0o700


def test_what_a_home_holds_is_in_no_commit_of_the_repository_that_it_lies_in(tmp_path):
    home = Home(tmp_path / ".rlft")
    for _ in range(2):
        home.make()
        (home.root / "mlflow.db").write_text("")
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    seen = subprocess.run(["git", "status", "--porcelain"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert seen.stdout == ""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "notes.txt").write_text("")
    Home(tmp_path / "theirs").make()
    assert not (tmp_path / "theirs" / ".gitignore").exists()  # it was there before


def test_a_home_is_never_open_to_others_not_even_for_a_moment(tmp_path, monkeypatch):
    monkeypatch.setattr("pathlib.Path.chmod", lambda *_: pytest.fail("narrowed after it was made"))
    make_private(tmp_path / "new")
    assert mode(tmp_path / "new") == 0o700


def test_a_wide_home_of_before_is_narrowed_and_an_empty_folder(tmp_path):
    for name, inside in ((".rlft", "notes.txt"), ("elsewhere", "")):
        root = tmp_path / name
        (root / inside).mkdir(parents=True)
        root.chmod(0o755)
        Home(root).make()
        assert mode(root) == 0o700


def test_a_folder_that_was_there_before_is_left_as_it_is_and_said(tmp_path, caplog):
    (tmp_path / "thesis.tex").touch()
    tmp_path.chmod(0o755)
    Home(tmp_path).make()
    assert mode(tmp_path) == 0o755
    assert "can be read by others" in caplog.text


def test_someone_elses_folder_is_not_changed_and_said(tmp_path, monkeypatch, caplog):
    root = tmp_path / ".rlft"
    root.mkdir(mode=0o755)
    monkeypatch.setattr(os, "getuid", lambda: root.stat().st_uid + 1)
    Home(root).make()
    assert mode(root) == 0o755
    assert "can be read by others" in caplog.text


def test_a_file_system_without_modes_is_said(tmp_path, monkeypatch, caplog):
    root = tmp_path / ".rlft"
    root.mkdir(mode=0o755)
    monkeypatch.setattr("pathlib.Path.chmod", lambda *_: None)
    Home(root).make()
    assert "can be read by others" in caplog.text


def test_a_private_home_is_no_reason_for_a_warning(tmp_path, caplog):
    for _ in range(2):
        Home(tmp_path / ".rlft").make()
    assert not caplog.text


def test_a_home_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="RLFT_HOME"):
        Home(tmp_path / "file" / ".rlft").make()


def test_a_run_of_its_own_makes_its_home(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    use_own_setup(Home(tmp_path / ".rlft"))
    assert mode(tmp_path / ".rlft") == 0o700
    assert (tmp_path / ".rlft" / "zenml").is_dir()


@pytest.mark.parametrize("is_archive", [False, True])
def test_each_process_has_a_folder_of_its_own_for_what_zenml_writes(tmp_path, monkeypatch, is_archive):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    root = tmp_path / ".rlft"
    (root / "zenml").mkdir(parents=True)
    if is_archive:
        monkeypatch.setattr(os, "access", lambda path, mode: root not in (path, *path.parents))  # root may write anyway
    use_own_setup(Home(root))
    first = Path(os.environ["ZENML_CONFIG_PATH"])
    assert (root in first.parents) is not is_archive
    assert mode(first) == 0o700
    settings = (first / "config.yaml").read_text()
    assert os.environ["ZENML_LOCAL_STORES_PATH"] == str(root / "zenml" / "local_stores")
    use_own_setup(Home(root))
    assert os.environ["ZENML_CONFIG_PATH"] != str(first)
    assert (
        Path(os.environ["ZENML_CONFIG_PATH"]) / "config.yaml"
    ).read_text() == settings  # the cache has the same keys


@pytest.mark.parametrize("make", ["mkfifo", "write"])
def test_what_is_no_folder_is_refused(tmp_path, monkeypatch, make):
    place = tmp_path / "home"
    os.mkfifo(place) if make == "mkfifo" else place.write_text("")
    monkeypatch.setenv("RLFT_HOME", str(place))
    with pytest.raises(StorageError) as error:
        find_home()
    assert error.value.where == str(place)
