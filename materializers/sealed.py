"""What all materializers share: they seal what they store, and read nothing that differs from its seal.

The seal is a part of ZenML's metadata of the artifact (docs/decisions/0011-seals.md).
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

from materializers.disk import reading
from rlft.errors import FormatVersionError, RlftError
from rlft.seals import Seal, make_seal


class SealedMaterializer(BaseMaterializer):
    """Seals what is stored. Subclasses call `keep_seal` at the end of saving, and read with `read_file`."""

    SKIP_REGISTRATION: ClassVar[bool] = True
    _seal: Seal | None = None

    def keep_seal(self, contents: Mapping[str, bytes | Path]) -> None:
        """Seal the artifact's files, by their paths in it; `contents` is what they were written from."""
        self._seal = make_seal(self.uri, contents, *_who())

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
