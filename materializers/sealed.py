"""What all materializers share: they seal what they store, and read nothing that differs from its seal.

Why seals lie where they do is in docs/decisions/0011-seals.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from zenml.materializers.base_materializer import BaseMaterializer
from zenml.steps.step_context import StepContext, get_step_context

from materializers.disk import reading
from rlft.errors import FormatVersionError, RlftError
from rlft.seals import SEALED, Seal, lost_seal, make_seal, read_seal, seal_place


class SealedMaterializer(BaseMaterializer):
    """Seals what is stored. Subclasses call `keep_seal` at the end of saving, and read with `read_file`."""

    SKIP_REGISTRATION: ClassVar[bool] = True
    _seal: Seal | None = None

    def keep_seal(self, contents: Mapping[str, bytes | Path]) -> None:
        """Seal the artifact's files, by their paths in it; `contents` is what they were written from."""
        self._seal = make_seal(self.uri, contents, *_who())
        place = self._seal_place()
        self.artifact_store.makedirs(os.path.dirname(place))
        with self.artifact_store.open(place, "w") as file:
            file.write(self._seal.text())
        with self.artifact_store.open(os.path.join(self.uri, SEALED), "w"):
            pass

    def stored_seal(self) -> Seal | None:
        """Return the artifact's seal; `None` if it was stored before there were seals. Raises DamagedError."""
        place = self._seal_place()
        with reading(place):
            if not self.artifact_store.exists(place):
                if self.artifact_store.exists(os.path.join(self.uri, SEALED)):
                    raise lost_seal(self.uri)
                return None
            with self.artifact_store.open(place, "rb") as file:
                text = file.read().decode(errors="replace")
        return read_seal(self.uri, text)

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
        """Return ZenML's metadata with size and sha256 of each file, and the hash of the seal."""
        found = super().extract_full_metadata(data)
        if self._seal is None:
            return found
        return {
            **found,
            "seal": self._seal.digest,
            "files": {name: list(each) for name, each in self._seal.files.items()},
        }

    def _seal_place(self) -> str:
        return seal_place(self.artifact_store.path, self.uri)


def _who() -> tuple[str, str]:
    """Return the names of the run and the step that store something now; empty ones outside a step."""
    if StepContext.get() is None:
        return "", ""
    context = get_step_context()
    labels = (context.pipeline_run.config.parameters or {}).get("labels") or {}
    return labels.get("name") or context.pipeline_run.name, context.step_run.name
