"""Stores a page as HTML, which ZenML's dashboard shows."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from zenml.enums import ArtifactType, VisualizationType
from zenml.types import HTMLString

from materializers.disk import writing
from materializers.sealed import SealedMaterializer

_NAME = "report.html"


class PageMaterializer(SealedMaterializer):
    """Stores an `HTMLString` as `report.html`. The dashboard shows it in a frame in which no script runs."""

    ASSOCIATED_TYPES: ClassVar[tuple[type[Any], ...]] = (HTMLString,)
    ASSOCIATED_ARTIFACT_TYPE: ClassVar[ArtifactType] = ArtifactType.DATA_ANALYSIS

    @property
    def _file(self) -> str:
        return os.path.join(self.uri, _NAME).replace("\\", "/")

    def save(self, data: Any) -> None:
        """Write the page. Raises StorageError if the disk does not take it."""
        content = data.encode()
        with writing(self._file):
            with self.artifact_store.open(self._file, "wb") as file:
                file.write(content)
            self.keep_seal({_NAME: content})

    def load(self, data_type: type[Any]) -> HTMLString:
        """Read the page. Raises DamagedError if the file is not what was stored."""
        del data_type
        content = self.read_file(_NAME)
        with self.reading(_NAME):
            return HTMLString(content.decode())

    def save_visualizations(self, data: Any) -> dict[str, VisualizationType]:
        """Let ZenML's dashboard show the page itself."""
        del data
        return {self._file: VisualizationType.HTML}
