import os
import stat
from pathlib import Path

import pytest

from rlft.errors import RlftError, StorageError
from rlft.export.place import check_target, written_aside


def test_an_empty_folder_is_replaced_with_the_usual_access(tmp_path):
    target = tmp_path / "out"
    target.mkdir()
    with written_aside(check_target(target)) as folder:
        (folder / "file").write_text("x")
        assert list(target.iterdir()) == []
    usual = tmp_path / "usual"
    usual.mkdir()
    assert stat.S_IMODE(target.stat().st_mode) == stat.S_IMODE(usual.stat().st_mode)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["out", "usual"]
    assert (target / "file").read_text() == "x"


def test_nothing_is_left_of_one_that_fails(tmp_path):
    def fail():
        with written_aside(tmp_path / "out") as folder:
            (folder / "file").write_text("x")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_one_left_is_removed(tmp_path):
    from rlft.files import folder_prefix

    left = tmp_path / f"{folder_prefix('export').rsplit('-', 2)[0]}-999999999-abc"  # no process has this number
    left.mkdir()
    with written_aside(tmp_path / "out"):
        assert not left.exists()


def test_a_folder_that_was_filled_meanwhile_is_not_replaced(tmp_path):
    target = tmp_path / "out"

    def write():
        with written_aside(target):
            target.mkdir()
            (target / "theirs").write_text("x")

    with pytest.raises(StorageError, match="could not be written"):
        write()
    assert [entry.name for entry in target.iterdir()] == ["theirs"]


def test_a_file_is_refused_and_a_link_is_followed(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(RlftError, match="this is a file"):
        check_target(tmp_path / "file")
    os.symlink(tmp_path / "there", tmp_path / "link")
    assert check_target(tmp_path / "link") == tmp_path / "there"


def test_a_place_where_nothing_can_be_written_is_refused_before_anything_is_done(tmp_path):
    (tmp_path / "file").touch()
    for target in (Path("/proc/x"), tmp_path / "file" / "out"):
        with pytest.raises(RlftError, match="cannot be written to: ") as refused:
            check_target(target)
        assert refused.value.exit_code == 2
    assert check_target(tmp_path / "new" / "out") == tmp_path / "new" / "out"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
