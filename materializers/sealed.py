"""What all materializers share: they seal what they store, and read nothing that differs from its seal.

The seal is a part of ZenML's metadata of the artifact (docs/decisions/0011-seals.md).

What a disk or a store says becomes an error that says what to do: one that is full, denies, or is away.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from zenml.client import Client
from zenml.materializers.base_materializer import BaseMaterializer
from zenml.steps.step_context import StepContext, get_step_context

from rlft import files
from rlft.errors import FormatVersionError, RlftError, StorageError
from rlft.files import Seal, make_seal

# The libraries of stores: what they raise of a server that does not answer is no OSError.
_LIBRARIES = ("aiobotocore", "aiohttp", "botocore", "fsspec", "s3fs", "urllib3")


@contextmanager
def writing(where: str) -> Iterator[None]:
    """Raise StorageError, which names `where`, for what goes wrong inside with the disk or the store."""
    with files.writing("the artifact", where, "the disk or the artifact store"):
        try:
            yield
        except Exception as cause:
            if not _is_away(cause):
                raise
            raise _away("written", where, cause) from cause


@contextmanager
def reading(where: str) -> Iterator[None]:
    """Raise StorageError, which names `where`, for what goes wrong inside with the disk or the store.

    A file that is not there is left to the caller.
    """
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise
    except Exception as cause:
        if _is_away(cause):
            raise _away("read", where, cause) from cause
        if not isinstance(cause, OSError):
            raise
        remedy = "see that the disk or the artifact store can be read"
        if isinstance(cause, PermissionError):
            remedy = "let this user read there (on a stack: the key in ZenML's secret)"
        fix = f"{remedy}, then `rlft resume` this run"
        raise StorageError(f"the artifact could not be read: {cause}", where=where, fix=fix) from cause


def _is_away(cause: Exception) -> bool:
    """Return whether an error says that a store does not answer."""
    is_of_library = type(cause).__module__.split(".")[0] in _LIBRARIES
    return is_of_library or isinstance(cause, ConnectionError | TimeoutError)


def _away(done: str, where: str, cause: Exception) -> StorageError:
    said = str(cause) or type(cause).__name__
    what = f"the artifact could not be {done}, as its store does not answer: {said}"
    fix = "see that the artifact store can be reached from here, then `rlft resume` this run"
    return StorageError(what, where=where, fix=fix)


class SealedMaterializer(BaseMaterializer):
    """Seals what is stored. Subclasses call `keep_seal` at the end of saving, and read with `read_file`."""

    SKIP_REGISTRATION: ClassVar[bool] = True
    _seal: Seal | None = None

    def keep_seal(self, contents: Mapping[str, bytes | Path]) -> None:
        """Seal the artifact's files, by their paths in it; `contents` is what they were written from."""
        self._seal = make_seal(self.uri, contents, *_who())

    def file(self, name: str) -> str:
        """Return the address of a file of the artifact."""
        return os.path.join(self.uri, name).replace("\\", "/")

    def write_file(self, name: str, content: bytes) -> None:
        """Write the one file of an artifact, and seal it. Raises StorageError if the disk does not take it."""
        with writing(self.file(name)):
            with self.artifact_store.open(self.file(name), "wb") as file:
                file.write(content)
            self.keep_seal({name: content})

    def stored_seal(self) -> Seal | None:
        """Return the artifact's seal; `None` if ZenML knows none."""
        known = noted_of(self.uri)
        if "files" not in known:
            return None
        return Seal(self.uri, known["files"], known.get("run", ""), known.get("step", ""))

    def read_file(self, name: str) -> bytes:
        """Return the content of a file of the artifact. Raises DamagedError if it is not what was stored."""
        seal = self.stored_seal()
        with self.reading(name, seal), self.artifact_store.open(os.path.join(self.uri, name), "rb") as file:
            content = bytes(file.read())
        if seal is not None:
            seal.check_bytes(name, content)
        return content

    @contextmanager
    def reading(self, name: str, seal: Seal | None = None) -> Iterator[None]:
        """Raise DamagedError for a file that is gone or does not parse, and StorageError if the store fails.

        An FormatVersionError gets the file as its place.
        """
        known = seal or Seal(self.uri, {})
        try:
            with reading(os.path.join(self.uri, name)):
                yield
        except FormatVersionError as other:
            raise other.at(os.path.join(self.uri, name)) from other
        except RlftError:
            raise
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as cause:
            raise known.damage(name, "this file is gone") from cause
        except Exception as cause:  # whatever pyarrow, json or pydantic make of bytes that are none of theirs
            raise known.damage(name, f"this file cannot be read: {type(cause).__name__}: {cause}") from cause

    def extract_full_metadata(self, data: Any) -> dict[str, Any]:
        """Return ZenML's metadata with the seal: size and sha256 of each file, and which run and step stored them."""
        return {**super().extract_full_metadata(data), **self.noted_seal()}

    def noted_seal(self) -> dict[str, Any]:
        """Return what ZenML notes of the seal of what was saved."""
        if (seal := self._seal) is None:
            return {}
        return {"files": {name: list(each) for name, each in seal.files.items()}, "run": seal.run, "step": seal.step}


def noted_of(uri: str) -> Mapping[str, Any]:
    """Return ZenML's metadata of the artifact at this address; empty if it has none."""
    found = Client().list_artifact_versions(uri=f"equals:{uri}", size=1, hydrate=True)
    return found[0].run_metadata if found else {}


def _who() -> tuple[str, str]:
    """Return the names of the run and the step that store something now; empty ones outside a step."""
    if StepContext.get() is None:
        return "", ""
    context = get_step_context()
    labels = (context.pipeline_run.config.parameters or {}).get("labels") or {}
    return labels.get("name") or context.pipeline_run.name, context.step_run.name
