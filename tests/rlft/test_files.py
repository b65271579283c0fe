"""Which files were read, and what they are."""

import hashlib
import json
import sqlite3
import threading
from contextlib import closing

import rlft
from rlft.files import files_read, named_files


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


def test_a_database_is_seen_unless_it_was_made_meanwhile(tmp_path):
    sqlite3.connect(tmp_path / "facts.db").close()
    with files_read() as found:
        for name in (tmp_path / "facts.db", tmp_path / "new.db", ":memory:"):
            with closing(sqlite3.connect(name)) as database:
                database.execute("create table facts (fact text)")
        sqlite3.connect(tmp_path / "new.db").close()
    assert found == {tmp_path / "facts.db"}


def test_data_that_any_thread_opens_is_seen_and_what_is_written_is_not(tmp_path):
    for name in ("before.txt", "here.json", "there.csv", "code.py", "written.txt"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "before.txt").read_text()
    with files_read() as found:
        json.loads((tmp_path / "here.json").read_text())
        thread = threading.Thread(target=(tmp_path / "there.csv").read_bytes)
        thread.start()
        thread.join()
        (tmp_path / "code.py").read_text()
        (tmp_path / "written.txt").write_text("new")
        (tmp_path / "written.txt").read_text()
        (tmp_path / "written.txt").replace(tmp_path / "renamed.txt")
        (tmp_path / "renamed.txt").read_text()
        open("/etc/hostname").close()
        open(json.__file__).close()
        assert found == set()
    (tmp_path / "before.txt").read_text()
    assert {path.name for path in found} == {"here.json", "there.csv"}
