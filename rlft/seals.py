"""Seals: what the files of an artifact were when they were stored, kept apart from them so that changes are noticed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlft.errors import DamagedError
from rlft.files import file_hash

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
