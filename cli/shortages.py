"""Makes one sentence of an error by which a machine says that room, memory, or leave to write is missing.

So too where a server or a store of a stack has failed.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from mlops.home.folder import Home
from rlft.errors import SAID, MemoryShortError, RlftError, StackAwayError, StackError, StorageError, shortage_of
from rlft.texts.secrets import hide

_STORES = ("aiobotocore", "botocore", "s3fs")  # libraries
_CLUSTER = ("kubernetes", "urllib3")  # requests and httpx wrap what urllib3 says, Kubernetes' client does not


def shortage_error(error: BaseException, home: Home, resume: str | None) -> RlftError | None:
    """Return the sentence for an error, if it is one of these; `resume` is the command that goes on with the run."""
    if resume is not None and _is_gone(home):
        return StorageError(
            "the folder of the runs was deleted or moved while the run went on",
            where=str(home.root),
            fix="put it back and resume the run, or start it anew",
        )
    then = f", then `{resume}`" if resume else ", then start again"
    match shortage_of(error):
        case "disk":
            return StorageError(SAID["disk"], where=_full_place(home), fix=f"make room there{then}")
        case "read-only":
            fix = f"make it writable (mount -o remount,rw), or copy it to another place and set RLFT_HOME{then}"
            return StorageError(SAID["read-only"], where=str(home.root), fix=fix)
        case "temporary":
            fix = f"make room there, or name another folder in TMPDIR{then}"
            return StorageError(SAID["temporary"], where=os.environ.get("TMPDIR", "/tmp"), fix=fix)
        case "memory" | "gpu":
            fix = f"free memory, or use a smaller model or smaller batches{then}"
            return MemoryShortError(SAID["memory"], fix=fix)
        case None:
            return _store_error(error, then)


def _store_error(error: BaseException, then: str) -> RlftError | None:
    """Return the sentence for what the client of a stack's store or cluster says, where ZenML itself has asked it."""
    if _library(error) in _CLUSTER:
        fix = f"see that the cluster of the stack answers (`kubectl cluster-info`) and lets you in{then}"
        return StackError(f"the cluster has failed: {type(error).__name__}", fix=fix)
    if _library(error) == "requests" or type(error).__name__ == "AuthorizationException":
        what = f"ZenML's server fails: {hide(' '.join(str(error).split()))[:200]}"
        return StackAwayError(what, fix=f"see that it answers, has room, and lets you in (`zenml login`){then}")
    said = any(_library(each) in _STORES for each in (error, error.__cause__))
    fix = f"see that this machine reaches the store, has its keys (AWS_ACCESS_KEY_ID and so on) and finds room{then}"
    return (
        StorageError(f"the artifact store has failed: {str(error) or type(error).__name__}", fix=fix) if said else None
    )


def _library(error: BaseException | None) -> str:
    return type(error).__module__.split(".")[0]


def _is_gone(home: Home) -> bool:
    """Return whether the home is no longer there, although this process has used it.

    ZenML makes folders of artifacts that it writes to again.
    """
    used = Path(os.environ.get("ZENML_LOCAL_STORES_PATH", "")).is_relative_to(home.root)
    return used and not home.note.exists()


def _full_place(home: Home) -> str:
    """Return which folder has no room: the home, unless it has some and that of temporary files has none."""
    try:
        temporary = tempfile.gettempdir()
    except OSError:
        return os.environ.get("TMPDIR", "/tmp")
    return temporary if _has_room(str(home.root)) and not _has_room(temporary) else str(home.root)


def _has_room(folder: str) -> bool:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize >= 1 << 20
