"""Stores tasks, rollouts and rewards as parquet files, which pandas opens directly.

The newest tables of this process are kept in memory, as an artifact never changes: a round's rollouts are read by
scoring and by training, and the tasks by every step. In a process of its own a step finds nothing there and reads the
file. This is global state on purpose (docs/decisions/0002-artifacts.md).
"""

from __future__ import annotations

import html
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from zenml.enums import ArtifactType, VisualizationType

from materializers.sealed import SealedMaterializer, writing
from rlft.messages import written
from rlft.outcome import as_text
from rlft.texts.characters import visible
from rlft.types import Rewards, Rollouts, TaskSet, storage

MAX_TABLES = 4
PREVIEW_ROWS = 20
# How what is stored under these names becomes a table, and a table what was stored.
_FORMS: dict[str, tuple[Callable[[Any], pa.Table], Callable[[pa.Table], Any]]] = {
    "tasks.parquet": (storage.tasks_to_table, storage.tasks_from_table),
    "rollouts.parquet": (storage.rollouts_to_table, storage.rollouts_from_table),
    "rewards.parquet": (storage.rewards_to_table, storage.rewards_from_table),
}
WARM = OrderedDict[str, Any]()  # by the file they come from, the least recently used first


def keep_warm(file: str, value: Any) -> None:
    """Keep an object in memory, and drop the least recently used ones if there are too many."""
    WARM.pop(file, None)
    WARM[file] = value
    while len(WARM) > MAX_TABLES:
        WARM.popitem(last=False)


class _TableMaterializer(SealedMaterializer):
    """Stores an object as one parquet file; `_FORMS` says how, and subclasses what the dashboard shows."""

    ASSOCIATED_ARTIFACT_TYPE: ClassVar[ArtifactType] = ArtifactType.DATA
    SKIP_REGISTRATION: ClassVar[bool] = True
    FILE_NAME: ClassVar[str] = "table.parquet"

    def preview(self, data: Any) -> tuple[str, list[str], Iterable[list[object]]]:
        """Return title, column names and rows of what the dashboard shows."""
        raise NotImplementedError

    def save(self, data: Any) -> None:
        """Write the table. Raises StorageError if the disk does not take it."""
        written = pa.BufferOutputStream()
        pq.write_table(_FORMS[self.FILE_NAME][0](data), written, compression="zstd")
        self.write_file(self.FILE_NAME, written.getvalue().to_pybytes())
        keep_warm(self.file(self.FILE_NAME), data)

    def load(self, data_type: type[Any]) -> Any:
        """Return the object that was stored, from memory if this process wrote or read it lately.

        Raises DamagedError if the file is not what was stored.
        """
        del data_type
        data = WARM.get(file := self.file(self.FILE_NAME))
        if data is None:
            content = self.read_file(self.FILE_NAME)
            with self.reading(self.FILE_NAME):
                data = _FORMS[self.FILE_NAME][1](storage.table_of(content))
        keep_warm(file, data)
        return data

    def save_visualizations(self, data: Any) -> dict[str, VisualizationType]:
        """Write a plain HTML table of the first rows, which the dashboard shows without scripts."""
        title, names, rows = self.preview(data)
        head = "".join(f"<th>{_escaped(name)}</th>" for name in names)
        body = "".join("<tr>" + "".join(f"<td>{_escaped(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        path = self.file("preview.html")
        with writing(path), self.artifact_store.open(path, "w") as file:
            file.write(f"<h3>{_escaped(title)}</h3><table border='1'><tr>{head}</tr>{body}</table>")
        return {path: VisualizationType.HTML}


class TaskSetMaterializer(_TableMaterializer):
    """Stores a `TaskSet` as `tasks.parquet`."""

    ASSOCIATED_TYPES: ClassVar[tuple[type[Any], ...]] = (TaskSet,)
    SKIP_REGISTRATION: ClassVar[bool] = False
    FILE_NAME: ClassVar[str] = "tasks.parquet"

    def compute_content_hash(self, data: TaskSet) -> str:
        """Return the fingerprint of the tasks."""
        return data.fingerprint

    def extract_metadata(self, data: TaskSet) -> dict[str, Any]:
        """Return the fingerprint, and how many tasks each split has."""
        counts = Counter(task.split for task in data.tasks)
        return {"fingerprint": data.fingerprint, "tasks": {str(split): counts[split] for split in sorted(counts)}}

    def preview(self, data: TaskSet) -> tuple[str, list[str], Iterable[list[object]]]:
        """Return the first tasks."""
        rows = [[t.id, t.split, t.prompt[-1]["content"], t.answer] for t in data.tasks[:PREVIEW_ROWS]]
        return f"{len(data.tasks)} tasks", ["id", "split", "prompt", "answer"], rows


class RolloutsMaterializer(_TableMaterializer):
    """Stores `Rollouts` as `rollouts.parquet`."""

    ASSOCIATED_TYPES: ClassVar[tuple[type[Any], ...]] = (Rollouts,)
    SKIP_REGISTRATION: ClassVar[bool] = False
    FILE_NAME: ClassVar[str] = "rollouts.parquet"

    def compute_content_hash(self, data: Rollouts) -> str:
        """Return the hash of everything but wall times."""
        return storage.hash_rows(data.rows, storage.ROLLOUT_SCHEMA)

    def extract_metadata(self, data: Rollouts) -> dict[str, Any]:
        """Return how many rollouts and sampled tokens there are, and the wall seconds."""
        tokens = int(sum(rollout.loss_mask.sum() for rollout in data))
        return {"rollouts": len(data), "sampled_tokens": tokens, "seconds": data.seconds}

    def preview(self, data: Rollouts) -> tuple[str, list[str], Iterable[list[object]]]:
        """Return the first rollouts, each with its last two messages."""
        rows: list[list[object]] = []
        for rollout in data.rows[:PREVIEW_ROWS]:
            asked, answered = ["", "", *map(written, rollout.messages)][-2:]  # "" where there are fewer than two
            rows.append([rollout.rollout_id, asked, answered])
        return f"{len(data)} rollouts", ["rollout", "asked", "answered"], rows


class RewardsMaterializer(_TableMaterializer):
    """Stores `Rewards` as `rewards.parquet`."""

    ASSOCIATED_TYPES: ClassVar[tuple[type[Any], ...]] = (Rewards,)
    SKIP_REGISTRATION: ClassVar[bool] = False
    FILE_NAME: ClassVar[str] = "rewards.parquet"

    def compute_content_hash(self, data: Rewards) -> str:
        """Return the hash of everything but wall times."""
        extra = [repr(sorted(data.weights.items())), *([repr(sorted(data.ranges.items()))] if data.ranges else [])]
        return storage.hash_rows(data.rows, storage.REWARD_SCHEMA, *extra)

    def extract_metadata(self, data: Rewards) -> dict[str, Any]:
        """Return how many rewards there are and how many errored, and the mean of the others."""
        totals = [reward.total for reward in data if reward.total is not None]
        mean = {"mean_reward": sum(totals) / len(totals)} if totals else {}
        return {"rewards": len(data), "errored": len(data) - len(totals), **mean}

    def preview(self, data: Rewards) -> tuple[str, list[str], Iterable[list[object]]]:
        """Return the first scores, with their parts."""
        rows = [[r.rollout_id, r.total, r.parts, as_text(r.error) or ""] for r in data.rows[:PREVIEW_ROWS]]
        return f"{len(data)} rewards", ["rollout", "total", "parts", "error"], rows


def _escaped(cell: object) -> str:
    """Return text for HTML in which tags, and characters that turn the direction of text, have no effect."""
    return html.escape(visible(str(cell)))
