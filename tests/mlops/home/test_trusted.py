"""Whose settings an account trusts: notes in a home that nobody else can make."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from mlops.home.folder import Home
from mlops.home.trusted import is_trusted, trust

SETTINGS = {"name": "a", "training": {"rounds": 3, "learning_rate": 1e-3}}


@pytest.fixture
def home(tmp_path, monkeypatch) -> Home:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return Home(tmp_path / ".rlft")


def test_what_this_account_has_begun_here_is_its_own_and_nothing_else(home):
    assert not is_trusted(home, SETTINGS)
    trust(home, SETTINGS)
    trust(home, {"name": "b"})
    assert is_trusted(home, SETTINGS)
    assert is_trusted(home, {"training": {"learning_rate": 0.001, "rounds": 3}, "name": "a"})  # in whatever order
    assert not is_trusted(home, {**SETTINGS, "name": "c"})
    assert not is_trusted(home, {})


def test_another_account_makes_no_note_of_this_one(home, tmp_path, monkeypatch):
    trust(home, SETTINGS)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "other"))
    assert not is_trusted(home, SETTINGS)  # a home that was copied
    trust(home, {"name": "evil"})
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert is_trusted(home, SETTINGS)
    assert not is_trusted(home, {"name": "evil"})


def test_the_note_is_a_keyed_hash_whose_key_is_the_accounts_alone(home, tmp_path):
    trust(home, {"a": 1})
    trust(home, {"a": 1})
    key = tmp_path / "config/rlft/key"
    assert (key.stat().st_mode & 0o777, key.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert len(bytes.fromhex(key.read_text())) == 32
    digest = hmac.new(bytes.fromhex(key.read_text()), b'{"a": 1}', hashlib.sha256).hexdigest()
    assert (home.root / "runs/trusted").read_text() == f"{digest}\n"  # once
    assert [file.name for file in key.parent.iterdir()] == ["key"]


@pytest.mark.parametrize("content", ["", "00" * 31, "no key", "é"])
def test_a_key_that_is_none_trusts_nothing_and_says_so(home, tmp_path, caplog, content):
    trust(home, SETTINGS)
    (tmp_path / "config/rlft/key").write_text(content)
    assert not is_trusted(home, SETTINGS)
    trust(home, SETTINGS)
    assert "a resume of this run will ask whether it is yours" in caplog.text


def test_an_account_without_a_folder_trusts_nothing_and_says_so(home, monkeypatch, caplog):
    def none() -> None:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setattr("mlops.home.trusted.Path.home", none)
    trust(home, SETTINGS)
    assert "this account has no folder of its own" in caplog.text
    assert not is_trusted(home, SETTINGS)


def test_a_link_in_a_home_from_elsewhere_is_not_followed(home, tmp_path, caplog):
    other = tmp_path / "a file of the user's"
    other.write_text("its text\n")
    (home.root / "runs").mkdir(parents=True)
    (home.root / "runs/trusted").symlink_to(other)
    trust(home, SETTINGS)
    assert other.read_text() == "its text\n"
    assert "will ask whether it is yours" in caplog.text


def test_where_no_key_can_be_made_the_run_begins_all_the_same(home, tmp_path, caplog):
    (tmp_path / "config").touch()
    trust(home, SETTINGS)
    assert "will ask whether it is yours" in caplog.text
    assert not is_trusted(home, SETTINGS)
