"""What is missing is told with its place and the command that goes on."""

import errno

import pytest
from kubernetes.client import ApiException
from requests import ConnectionError as RequestFailed
from urllib3 import HTTPSConnectionPool
from urllib3.exceptions import MaxRetryError

from cli.guard import shortage_error
from mlops.home.folder import Home
from rlft.errors import StackAwayError, StackError, StorageError

RESUME = "rlft resume a"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home whose ZenML this process uses."""
    home = Home(tmp_path / ".rlft")
    home.root.mkdir()
    home.note.touch()
    monkeypatch.setenv("ZENML_LOCAL_STORES_PATH", str(home.root / "zenml"))
    return home


def test_a_read_only_home(home):
    error = shortage_error(OSError(errno.EROFS, "Read-only file system"), home, RESUME)
    assert str(error) == (
        f"{home.root}: nothing can be written there any more\n  what to do: make it writable (mount -o remount,rw), or "
        f"copy it to another place and set RLFT_HOME, then `{RESUME}`"
    )
    assert error.exit_code == 1


def test_a_full_disk(home):
    error = shortage_error(OSError(errno.ENOSPC, "No space left on device"), home, RESUME)
    assert error.where == str(home.root)
    assert error.fix.endswith(f", then `{RESUME}`")


def test_temporary_files_without_a_place(home, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/somewhere")
    error = shortage_error(FileNotFoundError(2, "No usable temporary directory found in ['/somewhere']"), home, None)
    assert error.where == "/somewhere"
    assert error.fix == "make room there, or name another folder in TMPDIR, then start again"


def test_a_home_that_was_deleted(home, monkeypatch):
    home.note.unlink()
    (home.root / "zenml" / "local_stores" / "0a1b-2c-3d-4e-5f").mkdir(parents=True)  # ZenML has written again
    error = shortage_error(KeyError("whatever it led to"), home, RESUME)
    assert error.what == "the folder of the runs was deleted or moved while the run went on"
    assert shortage_error(KeyError("no run had begun"), home, None) is None
    monkeypatch.setenv("ZENML_LOCAL_STORES_PATH", "/elsewhere")  # the user's own ZenML: on a stack
    assert shortage_error(KeyError("another"), home, RESUME) is None


def test_what_is_no_shortage_is_left_to_others(home):
    assert shortage_error(ValueError("a mistake"), home, RESUME) is None


def test_what_the_client_of_a_store_says_is_a_sentence(tmp_path):
    away = type("ConnectionClosedError", (Exception,), {"__module__": "botocore.exceptions"})
    denied = PermissionError("Access Denied")
    denied.__cause__ = type("ClientError", (Exception,), {"__module__": "botocore.exceptions"})("403")
    for error, said in ((away("cut"), "cut"), (away(), "ConnectionClosedError"), (denied, "Access Denied")):
        found = shortage_error(error, Home(tmp_path), RESUME)
        assert isinstance(found, StorageError)
        assert said in found.what
        assert RESUME in str(found)
    assert shortage_error(PermissionError("of this machine"), Home(tmp_path), RESUME) is None


def test_a_cluster_that_is_away(home):
    away = MaxRetryError(HTTPSConnectionPool("cluster.example"), "/api", ConnectionRefusedError("refused"))
    for error in (away, ApiException(status=403, reason="Forbidden")):
        told = shortage_error(error, home, None)
        assert isinstance(told, StackError)
        assert type(error).__name__ in told.what
        assert "kubectl cluster-info" in told.fix


def test_a_request_that_failed_is_laid_to_zenmls_server_only_where_its_client_made_it(home):
    client = {"__name__": "zenml.zen_stores.rest_zen_store"}
    exec("def request(error):\n    raise error", client)
    elsewhere = RequestFailed("a judge is away")
    assert shortage_error(elsewhere, home, RESUME) is None
    for resume, kind, code in ((RESUME, StackAwayError, 1), (None, StackError, 2)):
        with pytest.raises(RequestFailed) as raised:
            client["request"](RequestFailed("refused"))
        told = shortage_error(raised.value, home, resume)
        assert (type(told), told.exit_code) == (kind, code)
        assert "zenml login" in told.fix
