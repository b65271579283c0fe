"""Tasks, rollouts and rewards as parquet files that pandas opens directly."""

from __future__ import annotations

import html
import os
from collections import Counter
from collections.abc import Iterable
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from zenml.enums import ArtifactType, VisualizationType
from zenml.materializers.base_materializer import BaseMaterializer

from materializers.disk import writing
from materializers.warm import WARM
from rlft import storage
from rlft.messages import written
from rlft.outcome import as_text
from rlft.types import Rewards, Rollouts, TaskSet
from rlft.visible import visible

PREVIEW_ROWS = 20


class _TableMaterializer(BaseMaterializer):
    """Writes one parquet file; subclasses say how an object becomes a table and what it shows."""

    ASSOCIATED_ARTIFACT_TYPE: ClassVar[ArtifactType] = ArtifactType.DATA
    SKIP_REGISTRATION: ClassVar[bool] = True
    FILE_NAME: ClassVar[str] = "table.parquet"

    def to_table(self, data: Any) -> pa.Table:
        """The object as a table."""
        raise NotImplementedError

    def from_table(self, table: pa.Table) -> Any:
        """The table as an object."""
        raise NotImplementedError

    def preview(self, data: Any) -> tuple[str, list[str], Iterable[list[object]]]:
        """Title, column names and rows of what the dashboard shows."""
        raise NotImplementedError

    @property
    def _file(self) -> str:
        return os.path.join(self.uri, self.FILE_NAME)

    def save(self, data: Any) -> None:
        """Write the table; a disk that is full is an error that says so."""
        with writing(self._file), self.artifact_store.open(self._file, "wb") as file:
            pq.write_table(self.to_table(data), file, compression="zstd")
        WARM.put(self._file, data)

    def load(self, data_type: type[Any]) -> Any:
        """The table as it was written, from memory when this process wrote or read it lately."""
        del data_type
        data = WARM.get(self._file)
        if data is None:
            with self.artifact_store.open(self._file, "rb") as file:
                data = self.from_table(pq.ParquetFile(file).read())  # `read_table` imports pandas
            WARM.put(self._file, data)
        return data

    def save_visualizations(self, data: Any) -> dict[str, VisualizationType]:
        """A plain HTML table of the first rows; the dashboard shows it without scripts."""
        title, names, rows = self.preview(data)
        head = "".join(f"<th>{_escaped(name)}</th>" for name in names)
        body = "".join("<tr>" + "".join(f"<td>{_escaped(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        path = os.path.join(self.uri, "preview.html").replace("\\", "/")
        with self.artifact_store.open(path, "w") as file:
            file.write(f"<h3>{_escaped(title)}</h3><table border='1'><tr>{head}</tr>{body}</table>")
        return {path: VisualizationType.HTML}


class TaskSetMaterializer(_TableMaterializer):
    """`TaskSet` <-> tasks.parquet."""

    ASSOCIATED_TYPES: ClassVar[tuple[type[Any], ...]] = (TaskSet,)
    SKIP_REGISTRATION: ClassVar[bool] = False
    FILE_NAME: ClassVar[str] = "tasks.parquet"

    def to_table(self, data: TaskSet) -> pa.Table:
        """One row per task."""
        return storage.tasks_to_table(data)

    def from_table(self, table: pa.Table) -> TaskSet:
        """Tasks in their stored order."""
        return storage.tasks_from_table(table)

    def compute_content_hash(self, data: TaskSet) -> str:
        """The fingerprint of the tasks."""
        return data.fingerprint

    def extract_metadata(self, data: TaskSet) -> dict[str, Any]:
        """Counts by split."""
        counts = Counter(task.split for task in data.tasks)
        return {"fingerprint": data.fingerprint, "tasks": {str(split): counts[split] for split in sorted(counts)}}

    def preview(self, data: TaskSet) -> tuple[str, list[str], Iterable[list[object]]]:
        """The first tasks."""
        rows = [[t.id, t.split, t.prompt[-1]["content"], t.answer] for t in data.tasks[:PREVIEW_ROWS]]
        return f"{len(data.tasks)} tasks", ["id", "split", "prompt", "answer"], rows


class RolloutsMaterializer(_TableMaterializer):
    """`Rollouts` <-> rollouts.parquet."""

    ASSOCIATED_TYPES: ClassVar[tuple[type[Any], ...]] = (Rollouts,)
    SKIP_REGISTRATION: ClassVar[bool] = False
    FILE_NAME: ClassVar[str] = "rollouts.parquet"

    def to_table(self, data: Rollouts) -> pa.Table:
        """One row per rollout."""
        return storage.rollouts_to_table(data)

    def from_table(self, table: pa.Table) -> Rollouts:
        """Rollouts in their stored order."""
        return storage.rollouts_from_table(table)

    def compute_content_hash(self, data: Rollouts) -> str:
        """Hash of everything but the clocks."""
        return storage.hash_rows(data.rows, storage.ROLLOUT_SCHEMA)

    def extract_metadata(self, data: Rollouts) -> dict[str, Any]:
        """Counts and wall seconds."""
        tokens = int(sum(rollout.loss_mask.sum() for rollout in data))
        return {"rollouts": len(data), "sampled_tokens": tokens, "seconds": data.seconds}

    def preview(self, data: Rollouts) -> tuple[str, list[str], Iterable[list[object]]]:
        """The first attempts."""
        rows: list[list[object]] = []
        for rollout in data.rows[:PREVIEW_ROWS]:
            asked, answered = ["", "", *map(written, rollout.messages)][-2:]
            rows.append([rollout.rollout_id, asked, answered])
        return f"{len(data)} rollouts", ["rollout", "asked", "answered"], rows


class RewardsMaterializer(_TableMaterializer):
    """`Rewards` <-> rewards.parquet."""

    ASSOCIATED_TYPES: ClassVar[tuple[type[Any], ...]] = (Rewards,)
    SKIP_REGISTRATION: ClassVar[bool] = False
    FILE_NAME: ClassVar[str] = "rewards.parquet"

    def to_table(self, data: Rewards) -> pa.Table:
        """One row per rollout."""
        return storage.rewards_to_table(data)

    def from_table(self, table: pa.Table) -> Rewards:
        """Rewards in their stored order."""
        return storage.rewards_from_table(table)

    def compute_content_hash(self, data: Rewards) -> str:
        """Hash of everything but the clocks."""
        return storage.hash_rows(data.rows, storage.REWARD_SCHEMA, repr(sorted(data.weights.items())))

    def extract_metadata(self, data: Rewards) -> dict[str, Any]:
        """Mean reward and errors."""
        totals = [reward.total for reward in data if reward.total is not None]
        mean = {"mean_reward": sum(totals) / len(totals)} if totals else {}
        return {"rewards": len(data), "errored": len(data) - len(totals), **mean}

    def preview(self, data: Rewards) -> tuple[str, list[str], Iterable[list[object]]]:
        """The first scores, with their parts."""
        rows = [[r.rollout_id, r.total, r.parts, as_text(r.error) or ""] for r in data.rows[:PREVIEW_ROWS]]
        return f"{len(data)} rewards", ["rollout", "total", "parts", "error"], rows


def _escaped(cell: object) -> str:
    """Text for HTML, in which no tag and no mark of direction has an effect."""
    return html.escape(visible(str(cell)))
