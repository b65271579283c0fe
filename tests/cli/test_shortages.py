"""What is missing is told with its place and the command that goes on."""

import errno

from cli.guard import shortage_error
from mlops.home.folder import Home
from rlft.errors import MemoryShortError, StorageError

RESUME = "rlft resume a"


def test_a_disk_that_takes_nothing_more(tmp_path):
    home = Home(tmp_path / ".rlft")
    for number in (errno.ENOSPC, errno.EROFS):
        error = shortage_error(OSError(number, "as the system says it"), home, RESUME)
        assert isinstance(error, StorageError)
        assert error.where == str(home.root)
        assert error.fix.endswith(f", then `{RESUME}`")
        assert error.exit_code == 1


def test_memory_that_is_short_before_a_run_has_begun(tmp_path):
    error = shortage_error(MemoryError(), Home(tmp_path), None)
    assert isinstance(error, MemoryShortError)
    assert error.fix.endswith(", then start again")


def test_what_is_no_shortage_is_left_to_others(tmp_path):
    assert shortage_error(ValueError("a mistake"), Home(tmp_path), RESUME) is None
