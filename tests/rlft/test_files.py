"""Which files were read, and what they are."""

from __future__ import annotations

import hashlib
import os

import pytest

import rlft
from rlft.errors import DamagedError
from rlft.files import Seal, folder_prefix, make_seal, named_files, remove_left_behind
from tests.left_behind import left_behind


def test_the_hash_is_that_of_the_bytes(tmp_path):
    (tmp_path / "a").write_bytes(b"a\r\n\x00")
    assert rlft.file_hash(tmp_path / "a") == hashlib.sha256(b"a\r\n\x00").hexdigest()


def test_files_are_found_in_lists_and_maps(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / "folder").mkdir()
    value = {"z": ["b.txt", 3, None, True], "a": {"path": str(tmp_path / "a.txt")}, "c": "folder", "d": "no\0file"}
    assert [path.name for path in named_files(value)] == ["a.txt", "b.txt"]
    assert list(named_files("absent.txt")) == []
    assert list(named_files("x" * 100_000)) == []


def test_only_what_dead_processes_of_this_machine_left_is_removed(tmp_path):
    dead = left_behind("weights", tmp_path).name.split("-")[-2]
    machine = folder_prefix("weights").removesuffix(f"{os.getpid()}-")
    stay = [
        f"{machine}{os.getpid()}-x",  # its process lives
        f"rlft-weights-elsewhere-{dead}-x",  # a process of another container
        f"{machine.replace('weights', 'adapter')}{dead}-x",  # another kind
        f"{machine}{dead}x-y",  # nobody's
    ]
    for folder in (tmp_path / name for name in stay):
        folder.mkdir()
        (folder / "file").write_text("x")
    remove_left_behind("weights", tmp_path)
    assert sorted(folder.name for folder in tmp_path.iterdir()) == sorted(stay)


def test_a_folder_of_this_process_stays(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"{folder_prefix('weights')}x").mkdir()
    remove_left_behind("weights")
    assert len(list(tmp_path.iterdir())) == 1


# sha256 of nothing, as everybody knows it
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_a_seal_holds_size_and_hash(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    seal = make_seal("/store/a", {"empty": b"", "file": tmp_path / "file"}, "run", "step")
    assert seal.files["empty"] == (0, EMPTY)
    assert seal.files["file"][0] == 3
    assert seal.files["file"][1].startswith("ba7816bf")  # sha256 of abc, FIPS 180-2
    assert (seal.place, seal.run, seal.step) == ("/store/a", "run", "step")


@pytest.fixture
def sealed(tmp_path):
    """A folder with files at two depths, and its seal."""
    files = {"top.json": b"{}", "policy/model/weights": b"weights", "policy/policy.json": b"{}"}
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return tmp_path, make_seal("/store/a", files, "the run", "train_grpo_r001")


def test_what_was_stored_passes(sealed):
    root, seal = sealed
    (root / "preview.html").write_text("ZenML's own, beside what is sealed")
    (root / "policy" / ".DS_Store").write_text("of a file manager")
    seal.check(root)
    seal.check_bytes("top.json", b"{}")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda file: file.write_bytes(b"weighty"), "has changed: its sha256 is "),
        (lambda file: file.write_bytes(b"weigh"), "has 5 bytes, and 7 were stored"),
        (lambda file: file.write_bytes(b""), "has 0 bytes, and 7 were stored"),
        (lambda file: file.unlink(), "is gone"),
        (lambda file: (file.unlink(), file.mkdir()), "bytes, and 7 were stored"),
    ],
)
def test_every_change_is_noticed(sealed, damage, said):
    root, seal = sealed
    damage(root / "policy" / "model" / "weights")
    with pytest.raises(DamagedError, match=said) as caught:
        seal.check(root, "policy/model")
    assert caught.value.where == "/store/a/policy/model/weights"
    assert "`rlft resume 'the run'` makes it again (train_grpo_r001)" in caught.value.fix
    assert len(list(seal.damages(root))) == 1
    seal.check(root, "policy/policy.json")  # the other files are as they were
    seal.check(root, "top.json")


def test_a_file_that_was_added_is_noticed(sealed):
    root, seal = sealed
    (root / "policy" / "model" / "chat_template.jinja").write_text("{{ messages }}")
    with pytest.raises(DamagedError, match="was not stored with the others"):
        seal.check(root, "policy")
    seal.check(root, "top.json")
    with pytest.raises(DamagedError, match="was not stored with the others"):
        seal.check_bytes("other", b"")


def test_what_was_stored_outside_a_run_is_made_again_by_a_new_one():
    damage = Seal("/store/a", {}).damage("f", "this file is gone")
    assert "rlft run --no-cache" in damage.fix
