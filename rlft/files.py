"""Files: hashes of them, which of them an environment reads, and writing them completely or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import stat
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

RLFT_FOLDER = Path(__file__).resolve().parent
OWN_PACKAGES = ("rlft", "mlops", "materializers", "steps", "pipelines", "cli")
"""What is installed with rlft; a user's own package of such a name cannot be imported beside it."""
# What `files_read` does not count as data: code, and the folders of the operating system.
_CODE = {".py", ".pyc", ".pyi", ".so", ".pth"}
_SYSTEM = ("/proc", "/sys", "/dev", "/etc", "/lib", "/usr/lib", "/usr/share", "/usr/local/lib", "/usr/local/share")
_WRITING = os.O_WRONLY | os.O_RDWR


def file_hash(path: str | Path) -> str:
    """Return the sha256 of a file's bytes as 64 hexadecimal digits, for `data_fingerprint`. Raises OSError.

    >>> import rlft
    >>> rlft.file_hash("/dev/null")[:8]
    'e3b0c442'
    """
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON, as `object_pairs_hook`. Raises ValueError for a key that stands twice in it.

    Python's reader would keep the last of the two.
    """
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"the key {twice[:100]!r} stands twice")
    return result


def json_line(line: bytes) -> Any:
    """Return what a line of a JSONL file in UTF-8 holds, also behind a byte order mark.

    Raises UnicodeDecodeError, RecursionError, and ValueError, for a key that stands twice in an object, too.
    """
    return json.loads(line.decode("utf-8-sig"), object_pairs_hook=each_key_once)


def expanded(path: str) -> Path:
    """Return a path whose `~` is replaced by the user's folder; `~someone` who is unknown stays as it is."""
    return Path(os.path.expanduser(path))


def why_no_file(path: Path) -> str | None:
    """Return why a path names no file to read, or `None`. Nothing is opened: opening a pipe waits for its writer."""
    try:
        kind = _kind(path)
    except FileNotFoundError:
        return f"no such file (looked in {Path.cwd()})"
    except (OSError, ValueError) as cause:  # ValueError: a null byte
        return f"no path of a file: {getattr(cause, 'strerror', None) or cause}"
    return kind and f"this is {kind}, not a file"


def why_not_writable(path: Path) -> str | None:
    """Return why no file can be put at a path, or `None`. Folders on the way to it are made."""
    try:
        with suppress(FileNotFoundError):
            if kind := _kind(path):
                return f"this is {kind}, not a file"
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            return None
    except (OSError, ValueError) as cause:
        return f"nothing can be written there: {cause}"


def _kind(path: Path) -> str | None:
    """Return what is at a path that is no regular file; `None` if it is one. Raises OSError if nothing is there."""
    mode = path.stat().st_mode
    kinds = {"a folder": stat.S_ISDIR, "a pipe": stat.S_ISFIFO, "a socket": stat.S_ISSOCK}
    return None if stat.S_ISREG(mode) else next((name for name, fits in kinds.items() if fits(mode)), "a device")


def is_installed(path: Path | str) -> bool:
    """Return whether a file belongs to an installed package. Asked of thousands of modules, so no `Path` is made."""
    return f"{os.sep}site-packages{os.sep}" in os.fspath(path) or f"{os.sep}dist-packages{os.sep}" in os.fspath(path)


def make_private(folder: Path) -> None:
    """Make a folder that only its owner can enter; one of this user's that exists is made so. Raises OSError."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)  # with the mode at once, as others could enter before a chmod
    found = folder.stat()
    if found.st_uid == os.getuid() and found.st_mode & 0o077:
        folder.chmod(0o700)


def write_file(path: Path, text: str) -> None:
    """Write a small file completely or not at all: under another name, which is changed at the end.

    Raises OSError, also where something stands that is no file, such as a pipe or a device, which stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own: whatever stands there under a name that could be guessed is not ours.
    partial = path.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        with partial.open("x", encoding="utf-8") as file:
            file.write(text)
        with suppress(FileNotFoundError):
            if kind := _kind(path):
                raise OSError(f"{path} is {kind}, not a file")
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def link_or_copy(source: str | Path, target: str | Path) -> None:
    """Make `target` a hard link to `source` if the file system allows it, else a copy.

    For large files that are never changed in place, such as weights.
    """
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def named_files(value: Any) -> Iterator[Path]:
    """Yield the existing files that texts in nested lists and maps name, relative to the working directory."""
    for text in texts_in(value):
        with suppress(ValueError):  # the text has a null byte
            if os.path.isfile(text):
                yield Path(text)


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts in nested lists and maps; those of a map in the order of its keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key in sorted(value):
            yield from texts_in(value[key])
    elif isinstance(value, list | tuple):
        for each in value:
            yield from texts_in(each)


@contextmanager
def files_read() -> Iterator[set[Path]]:
    """Note the data files that Python code of any thread opens for reading; the set is filled when the context ends.

    Code, installed libraries, the system's own files, and files that were written in the context do not count. What C
    code opens by itself is not seen, except databases of sqlite3. Python cannot remove an audit hook, so this is for a
    command that ends soon.
    """
    read: set[str] = set()
    written: set[str] = set()
    active = True

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if active and event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            path = os.path.abspath(os.fsdecode(arguments[0]))
            (written if arguments[2] & _WRITING else read).add(path)
        elif active and event == "sqlite3.connect" and isinstance(arguments[0], str | bytes | os.PathLike):
            path = os.path.abspath(os.fsdecode(arguments[0]))
            # The event comes before sqlite opens the database, and makes it if there is none.
            (read if os.path.isfile(path) else written).add(path)
        elif active and event == "os.rename":  # a file that is written under another name first
            written.add(os.path.abspath(os.fsdecode(arguments[1])))

    found: set[Path] = set()
    sys.addaudithook(hook)
    try:
        yield found
    finally:
        active = False
        found.update(Path(path).resolve() for path in read - written if _is_data(path))


def _is_data(path: str) -> bool:
    installed = {sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), str(Path(__file__).parent)}
    skipped = (*_SYSTEM, *installed, *(os.path.realpath(folder) for folder in installed))
    return (
        os.path.isfile(path)
        and os.path.splitext(path)[1] not in _CODE
        and not any(path == folder or path.startswith(folder + os.sep) for folder in skipped)
    )
