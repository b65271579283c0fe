"""Stores policies as folders in the artifact store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

from zenml.enums import ArtifactType
from zenml.io import fileio

from materializers.sealed import SealedMaterializer, reading, writing
from rlft.files import link_or_copy
from rlft.models import PolicyFolder

_NAME = PolicyFolder.NAME


class PolicyMaterializer(SealedMaterializer):
    """Stores a `PolicyFolder` as `policy/`. A local store gets hard links where that works, and is read in place.

    Loading only brings the seal along: what is read of the folder is checked when it is read.
    """

    ASSOCIATED_TYPES: ClassVar[tuple[type[Any], ...]] = (PolicyFolder,)
    ASSOCIATED_ARTIFACT_TYPE: ClassVar[ArtifactType] = ArtifactType.MODEL

    @property
    def _folder(self) -> str:
        return os.path.join(self.uri, _NAME)

    @property
    def _is_local(self) -> bool:
        return bool(self.artifact_store.config.is_local)

    def save(self, data: PolicyFolder) -> None:
        """Copy (or, on a local store, hard-link) the folder's files into the artifact.

        Raises StorageError if the disk does not take them, or if `data` is an artifact that is damaged.
        """
        if data.seal is not None:
            data.check()
        with writing(self._folder):
            files = sorted(path for path in data.path.rglob("*") if path.is_file())
            for source in files:
                target = os.path.join(self._folder, source.relative_to(data.path).as_posix())
                self.artifact_store.makedirs(os.path.dirname(target))
                if self._is_local:
                    link_or_copy(source, target)
                else:
                    fileio.copy(str(source), target)
            self.keep_seal({f"{_NAME}/{source.relative_to(data.path).as_posix()}": source for source in files})

    def load(self, data_type: type[Any]) -> PolicyFolder:
        """Return the folder in place on a local store, else a local copy that stays until the step has ended."""
        del data_type
        seal = self.stored_seal()
        if self._is_local:
            return PolicyFolder(Path(self._folder), seal)
        with self.get_temporary_directory(delete_at_exit=False) as directory:
            target = Path(directory) / _NAME
            with reading(self._folder):
                for folder, _, files in self.artifact_store.walk(self._folder):
                    for name in files:
                        source = os.path.join(str(folder), str(name))
                        local = target / os.path.relpath(source, self._folder)
                        local.parent.mkdir(parents=True, exist_ok=True)
                        fileio.copy(source, str(local))
            return PolicyFolder(target, seal)

    def compute_content_hash(self, data: PolicyFolder) -> str:
        """Return the hash of weights, optimizer state and tokenizer."""
        return data.metadata.content_hash

    def extract_metadata(self, data: PolicyFolder) -> dict[str, Any]:
        """Return what ZenML shows of a policy: kind, stage, round, update and its weights' hash."""
        metadata = data.metadata
        return {
            "kind": metadata.kind,
            "stage": metadata.stage,
            "round": metadata.round,
            "update": metadata.update,
            "weights_hash": metadata.weights_hash,
        }
