"""Files: hashes of them, and writing them completely or not at all.

A `Seal` says what the files of an artifact were when they were stored, and is kept apart from them, so that changes are
noticed. The names of temporary folders tell by which process they were made, so that what a killed one left is removed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from safetensors import SafetensorError

from rlft.errors import DamagedError, StorageError

RLFT_FOLDER = Path(__file__).resolve().parent
OWN_PACKAGES = ("rlft", "mlops", "materializers", "steps", "pipelines", "cli")
"""What is installed with rlft; a user's own package of such a name cannot be imported beside it."""


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


def folder_prefix(kind: str) -> str:
    """Return what the names of this process's temporary folders of a kind begin with.

    It has 16 bytes beside the kind and the number of the process, however long the machine's name is, of which it holds
    a hash: containers may share a folder, but not their process numbers.
    """
    return f"{_of_this_machine(kind)}{os.getpid()}-"


def _of_this_machine(kind: str) -> str:
    return f"rlft-{kind}-{hashlib.sha256(platform.node().encode()).hexdigest()[:8]}-"


def remove_left_behind(kind: str, parent: str | Path | None = None) -> None:
    """Remove the folders of a kind whose process on this machine has ended, in `parent` or where temporary files go.

    Known limit: containers that share a host name and this folder, but not their process numbers, are not told apart,
    so that one may remove a folder that another uses.
    """
    beginning = _of_this_machine(kind)
    for old in Path(parent or tempfile.gettempdir()).glob(f"{beginning}*"):
        owner = re.fullmatch(r"([0-9]+)-[^-]+", old.name.removeprefix(beginning))
        if owner and not psutil.pid_exists(int(owner[1])):
            shutil.rmtree(old, ignore_errors=True)


@contextmanager
def writing(what: str, where: str, room: str = "the disk (TMPDIR may name a larger one)") -> Iterator[None]:
    """Raise StorageError, which says how to go on, if writing files within this context fails.

    `what` is being written, `where` names the place of it, and `room` is where the user should make room.
    """
    try:
        yield
    except (OSError, SafetensorError) as cause:
        fix = f"{_remedy(cause, room)}, then `rlft resume` goes on with the run"
        raise StorageError(f"{what} could not be written: {cause}", where=where, fix=fix) from cause


def _remedy(cause: Exception, room: str) -> str:
    if isinstance(cause, PermissionError):
        return "let this user write there (on a stack: the key in ZenML's secret)"
    is_read_only = isinstance(cause, OSError) and cause.errno == errno.EROFS
    return "make it writable" if is_read_only else f"make room on {room}"


REMOVED = "policy/.removed"  # is in an artifact whose weights `policy.keep` removes, from before the first is gone


@dataclass(frozen=True, slots=True)
class Seal:
    """Holds size and sha256 of each file of an artifact, by its path in there, and who stored them.

    `place` is the address of the artifact. `run` and `step` are names, empty where it was stored outside a run.
    """

    place: str
    files: Mapping[str, Sequence[Any]]
    run: str = ""
    step: str = ""

    def check_bytes(self, name: str, content: bytes) -> None:
        """Raise DamagedError if a file has not the content that was stored."""
        self._compare(name, len(content), lambda: hashlib.sha256(content).hexdigest())

    def check(self, root: Path, *parts: str) -> None:
        """Raise DamagedError if files in the folder `root`, which holds the artifact, are not those that were stored.

        `parts` are files and folders in there; without any, all files are checked.
        """
        for damage in self.damages(root, *parts):
            raise damage

    def damages(self, root: Path, *parts: str) -> Iterator[DamagedError]:
        """Yield an error for each file that is missing, changed, or in a sealed folder without having been stored.

        Weights that `policy.keep` has removed are not missing.
        """
        removed = self.large_files() if self.weights_removed(root) else set()
        for name in sorted(name for name in self.files if _is_in(name, parts) and name not in removed):
            try:
                file = root / name
                self._compare(name, file.stat().st_size, lambda file=file: file_hash(file))
            except FileNotFoundError:
                yield self.damage(name, "this file is gone")
            except OSError as cause:
                yield self.damage(name, f"this file cannot be read: {cause}")
            except DamagedError as damage:
                yield damage
        for name in sorted(self._added(root)):
            if _is_in(name, parts):
                yield self.damage(name, "this file was not stored with the others, and may change what they mean")

    def large_files(self) -> set[str]:
        """Return the files of weights and of the optimizer's state."""
        return {name for name in self.files if name.endswith(".safetensors")}

    def weights_removed(self, root: Path) -> bool:
        """Return whether `policy.keep` has removed the weights, or some of them when it was cut short.

        It leaves a mark: weights that are gone without it were removed by somebody else, or are lost.
        """
        return (root / REMOVED).exists() and not all((root / name).exists() for name in self.large_files())

    def damage(self, name: str, what: str) -> DamagedError:
        """Return the error that says `what` is wrong with a file."""
        return DamagedError(what, where=f"{self.place}/{name}", run=self.run, step=self.step)

    def _compare(self, name: str, size: int, digest: Any) -> None:
        if name not in self.files:
            raise self.damage(name, "this file was not stored with the others, and may change what they mean")
        expected_size, expected = self.files[name]
        if size != expected_size:
            raise self.damage(name, f"this file has {size} bytes, and {expected_size} were stored")
        if (found := digest()) != expected:
            raise self.damage(
                name, f"this file has changed: its sha256 is {found[:12]}, and {expected[:12]} was stored"
            )

    def _added(self, root: Path) -> Iterator[str]:
        """Yield files in sealed folders that were not stored; beside sealed files ZenML stores what it shows."""
        for folder in {name.partition("/")[0] for name in self.files if "/" in name}:
            for file in (root / folder).rglob("*"):
                name = file.relative_to(root).as_posix()
                if name not in self.files and file.is_file() and not file.name.startswith("."):
                    yield name


def make_seal(place: str, contents: Mapping[str, bytes | Path], run: str = "", step: str = "") -> Seal:
    """Seal the files of an artifact, which are given by their paths in there, as bytes or as files elsewhere."""
    files = {name: _measure(content) for name, content in contents.items()}
    return Seal(place, files, run, step)


def _measure(content: bytes | Path) -> tuple[int, str]:
    if isinstance(content, bytes):
        return len(content), hashlib.sha256(content).hexdigest()
    return content.stat().st_size, file_hash(content)


def _is_in(name: str, parts: tuple[str, ...]) -> bool:
    return not parts or any(name == part or name.startswith(f"{part}/") for part in parts)
