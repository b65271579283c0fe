"""Stores reports, which are frozen dataclasses, as JSON."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from typing import Any, ClassVar

from pydantic import TypeAdapter
from zenml.enums import ArtifactType, VisualizationType
from zenml.materializers.base_materializer import BaseMaterializer

from materializers.disk import writing
from rlft.types import Report

_CLOCKS = {"seconds"}  # fields that differ between two runs of the same work


class ReportMaterializer(BaseMaterializer):
    """Stores a `Report` as `report.json`."""

    ASSOCIATED_TYPES: ClassVar[tuple[type[Any], ...]] = (Report,)
    ASSOCIATED_ARTIFACT_TYPE: ClassVar[ArtifactType] = ArtifactType.DATA_ANALYSIS

    @property
    def _file(self) -> str:
        return os.path.join(self.uri, "report.json").replace("\\", "/")

    def save(self, data: Any) -> None:
        """Write the report. Raises StorageError if the disk does not take it."""
        with writing(self._file), self.artifact_store.open(self._file, "w") as file:
            json.dump(dataclasses.asdict(data), file, indent=1, default=str)

    def load(self, data_type: type[Any]) -> Any:
        """Read a report of this type; lists become tuples again where the type says so."""
        with self.artifact_store.open(self._file, "r") as file:
            return TypeAdapter(data_type).validate_python(json.load(file))

    def compute_content_hash(self, data: Any) -> str:
        """Return the hash of the report without its field `seconds`."""
        content = {key: value for key, value in dataclasses.asdict(data).items() if key not in _CLOCKS}
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()

    def save_visualizations(self, data: Any) -> dict[str, VisualizationType]:
        """Let ZenML's dashboard show the file itself."""
        del data
        return {self._file: VisualizationType.JSON}
