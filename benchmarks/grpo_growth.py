"""How step time and memory grow with group size, prompt length and vocabulary: one at a time around a base."""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.grpo_workload import Workload, write_model

# Small enough that the dear ends (TRL on 16 rows of 2,032 tokens) take seconds.
BASE = {"groups": 2, "group_size": 8, "prompt_tokens": 100, "completion_tokens": 32, "vocabulary": 100, "steps": 2}
SIZES = {
    "group_size": (2, 4, 8, 16, 32),
    "prompt_tokens": (16, 100, 400, 1000, 2000),
    "vocabulary": (100, 1_000, 10_000, 50_000, 150_000),
}
KEYS = ("seconds", "sampling_seconds", "training_seconds", "cpu_seconds", "peak_mib")

Measure = Callable[..., dict[str, Any]]


def measure_growth(workload: Workload, options: argparse.Namespace, measure: Measure) -> dict[str, Any]:
    """Both sides at every point, once; of `workload` only the model, device and the like are taken."""
    base = dataclasses.replace(workload, **BASE)
    known: dict[Workload, dict[str, dict[str, float]]] = {}
    rows = []
    for name, sizes in SIZES.items():
        for size in sizes:
            point = dataclasses.replace(base, **{name: size})
            if point not in known:
                known[point] = _measure_point(point, options, measure)
            rows.append({"changed": name, "size": size, **known[point]})
    return {"base": dataclasses.asdict(base), "allocator": options.allocator, "points": rows, "growth": _growth(rows)}


def _measure_point(point: Workload, options: argparse.Namespace, measure: Measure) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        write_model(point, Path(folder))
        turns = [side for _ in range(options.repeats) for side in ("trl", "rlft")]
        runs = [measure(side, point, Path(folder), options) for side in turns]
    return {
        side: {key: statistics.median(run[key] for run in runs if run["side"] == side) for key in KEYS}
        for side in ("trl", "rlft")
    }


def _growth(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """From the smallest to the largest size: how many times the seconds, and how many MiB more."""
    found = {}
    for name in SIZES:
        first, *_, last = (row for row in rows if row["changed"] == name)
        found[name] = {"size_times": last["size"] / first["size"]}
        for side in ("trl", "rlft"):
            found[name][f"{side}_seconds_times"] = last[side]["seconds"] / first[side]["seconds"]
            found[name][f"{side}_more_mib"] = last[side]["peak_mib"] - first[side]["peak_mib"]
    return found


def show_growth(result: dict[str, Any]) -> Table:
    """All points as a table."""
    base = result["base"]
    sizes = ", ".join(f"{name} {base[name]:,}" for name in BASE if name != "steps")
    table = Table(title=f"One size changed at a time; the others: {sizes}")
    for name in ("changed", "size", "TRL, s", "rlft, s", "TRL / rlft", "TRL, MiB", "rlft, MiB"):
        table.add_column(name, justify="left" if name == "changed" else "right")
    for row in result["points"]:
        trl, rlft = row["trl"], row["rlft"]
        seconds = (f"{trl['seconds']:.2f}", f"{rlft['seconds']:.2f}", f"{trl['seconds'] / rlft['seconds']:.2f}")
        memory = (f"{trl['peak_mib']:.0f}", f"{rlft['peak_mib']:.0f}")
        last = row["size"] == SIZES[row["changed"]][-1]
        table.add_row(row["changed"], f"{row['size']:,}", *seconds, *memory, end_section=last)
    return table
