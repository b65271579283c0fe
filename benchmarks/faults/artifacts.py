"""Stored files that are not what they were, in the homes of runs that were killed and are resumed."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.faults.scene import Fault, Scene, Seen

# What a resume in the second round's training reads: the step, and the file below its newest artifact.
READ = {
    "tasks": "ingest_tasks/**/tasks.parquet",
    "rollouts": "generate_rollouts_r001/**/rollouts.parquet",
    "rewards": "score_rewards_r001/**/rewards.parquet",
    "policy": "train_grpo_r000/**/model.safetensors",
    "optimizer": "train_grpo_r000/**/optimizer.safetensors",
    "policy.json": "train_grpo_r000/**/policy.json",
    "tokenizer": "train_grpo_r000/**/tokenizer.json",
    "report": "train_grpo_r000/**/report.json",
    "base policy": "initialize_policy/**/model.safetensors",
}
# What the end of a run reads when it was killed while it registered its best policy.
AT_THE_END = {"best policy": "train_grpo_r00?/**/model.safetensors", "warm start": "warm_start/**/model.safetensors"}


def flip(file: Path) -> None:
    """Turn 64 bytes in the last part of a file around, where safetensors and parquet hold numbers."""
    data = bytearray(file.read_bytes())
    middle = len(data) * 3 // 4
    data[middle : middle + 64] = bytes(byte ^ 0xFF for byte in data[middle : middle + 64])
    file.write_bytes(data)


def cut(file: Path) -> None:
    """Leave the first half of a file."""
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def empty(file: Path) -> None:
    """Leave nothing of a file."""
    file.write_bytes(b"")


def edit(file: Path) -> None:
    """Change a number or a word in a file that still can be read."""
    if file.suffix == ".json":
        content = json.loads(file.read_text())
        key = next(key for key, value in content.items() if isinstance(value, int | float | str))
        content[key] = 7 if isinstance(content[key], int | float) else "other"
        file.write_text(json.dumps(content))
        return
    table = pq.read_table(file)
    name = "total" if "total" in table.column_names else next(iter(table.column_names))
    values = table[name].to_pylist()
    values[0] = 1.0 - (values[0] or 0.0) if name == "total" else f"{values[0]}x"
    changed = table.set_column(table.column_names.index(name), table.schema.field(name), pa.array(values))
    pq.write_table(changed.replace_schema_metadata(table.schema.metadata), file)


HARMS: dict[str, Callable[[Path], None]] = {
    "flipped": flip, "cut": cut, "empty": empty, "deleted": Path.unlink, "edited": edit
}  # fmt: skip


def _resumed(scene: Scene, pattern: str, harm: Callable[[Path], None]) -> Seen:
    home, run_id = scene.half_copy()
    for file in _files(home.folder, pattern):
        harm(file)
    return Seen(home, scene.follow(home, home.rlft("resume", run_id)))


def _concluded(scene: Scene, pattern: str, harm: Callable[[Path], None]) -> Seen:
    home, run_id = scene.last_copy()
    for file in _files(home.folder, pattern):
        harm(file)
    return Seen(home, scene.follow(home, home.rlft("resume", run_id)))


def _files(folder: Path, pattern: str) -> list[Path]:
    found = sorted((folder / ".rlft" / "zenml" / "local_stores").glob(f"*/{pattern}"))
    assert found, f"the run stored no {pattern}"
    return found


def _verified(scene: Scene) -> Seen:
    home, result = scene.whole
    home = scene.copy(home)
    flip(_files(home.folder, "generate_rollouts_r000/**/rollouts.parquet")[0])
    assert result.summary is not None
    found = scene.follow(home, home.rlft("doctor", "--verify"))
    return Seen(home, found, must_name="rollouts.parquet")


def faults() -> list[Fault]:
    """Return each harm to each file that is read, but for edits of numbers in safetensors, which are the flips."""
    made = []
    for what, pattern in READ.items():
        for how, harm in HARMS.items():
            if how != "edited" or not pattern.endswith(".safetensors"):
                made.append(Fault("artifacts", f"{what} {how}", partial(_resumed, pattern=pattern, harm=harm)))
    for what, pattern in AT_THE_END.items():
        for how in ("flipped", "cut"):
            cause = partial(_concluded, pattern=pattern, harm=HARMS[how])
            made.append(Fault("artifacts", f"{what} {how} before the end", cause))
    return [*made, Fault("artifacts", "rollouts flipped, doctor --verify", _verified)]
