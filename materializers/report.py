"""Stores reports, which are frozen dataclasses, as JSON, and pages as HTML. The dashboard of ZenML shows both."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any, ClassVar

from zenml.enums import ArtifactType, VisualizationType
from zenml.types import HTMLString

from materializers.sealed import SealedMaterializer
from rlft.types import Report
from rlft.types.formats import KEY, REPORT
from rlft.types.storage import report_of

_NAME = "report.json"


class ReportMaterializer(SealedMaterializer):
    """Stores a `Report` as `report.json`."""

    ASSOCIATED_TYPES: ClassVar[tuple[type[Any], ...]] = (Report,)
    ASSOCIATED_ARTIFACT_TYPE: ClassVar[ArtifactType] = ArtifactType.DATA_ANALYSIS

    def save(self, data: Any) -> None:
        """Write the report. Raises StorageError if the disk does not take it."""
        content = json.dumps({KEY: REPORT.version, **dataclasses.asdict(data)}, indent=1, default=str).encode()
        self.write_file(_NAME, content)

    def load(self, data_type: type[Any]) -> Any:
        """Read a report of this type; lists become tuples again where the type says so.

        Raises DamagedError if the file is not what was stored, and FormatVersionError for a format that is not read.
        """
        content = self.read_file(_NAME)
        with self.reading(_NAME):
            if not (isinstance(data_type, type) and issubclass(data_type, Report)):  # pydantic would call a function
                raise TypeError(f"{data_type!r} is no kind of report")
            return report_of(content, data_type)

    def compute_content_hash(self, data: Any) -> str:
        """Return the hash of the report without the fields that are `passing`."""
        content = {key: value for key, value in dataclasses.asdict(data).items() if key not in data.passing}
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()

    def save_visualizations(self, data: Any) -> dict[str, VisualizationType]:
        """Let ZenML's dashboard show the file itself."""
        del data
        return {self.file(_NAME): VisualizationType.JSON}


_PAGE = "report.html"


class PageMaterializer(SealedMaterializer):
    """Stores an `HTMLString` as `report.html`. The dashboard shows it in a frame in which no script runs."""

    ASSOCIATED_TYPES: ClassVar[tuple[type[Any], ...]] = (HTMLString,)
    ASSOCIATED_ARTIFACT_TYPE: ClassVar[ArtifactType] = ArtifactType.DATA_ANALYSIS

    def save(self, data: Any) -> None:
        """Write the page. Raises StorageError if the disk does not take it."""
        self.write_file(_PAGE, data.encode())

    def load(self, data_type: type[Any]) -> HTMLString:
        """Read the page. Raises DamagedError if the file is not what was stored."""
        del data_type
        content = self.read_file(_PAGE)
        with self.reading(_PAGE):
            return HTMLString(content.decode())

    def save_visualizations(self, data: Any) -> dict[str, VisualizationType]:
        """Let ZenML's dashboard show the page itself."""
        del data
        return {self.file(_PAGE): VisualizationType.HTML}
