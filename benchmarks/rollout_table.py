"""What follows from the turns of `rollout`: rows of medians, shares and a table."""

from __future__ import annotations

import statistics
from typing import Any

from rich.table import Table

from benchmarks.grpo_workload import Workload

TIMES = ("seconds", "sampling_seconds", "push_seconds", "proof_seconds", "other_cores")  # of a round
COLUMNS = (  # of the table: title, key, digits
    ("tokens/s", "tokens_per_second", 0),
    ("pushed/s", "tokens_per_second_with_push", 0),
    ("sampling s", "sampling_seconds", 3),
    ("push s", "push_seconds", 3),
    ("proof s", "proof_seconds", 3),
    ("of bare", "share_of_bare_vllm", 3),
)


def summarise(workload: Workload, side: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the turns of one side at one point."""
    point = {"side": side, "model": workload.model, "prompt_tokens": workload.prompt_tokens}
    turns = [run for run in runs if all(run[name] == value for name, value in point.items())]
    row = point | {name: statistics.median(turn[name] for turn in turns) for name in TIMES}
    tokens = workload.rollouts * workload.completion_tokens
    row |= {"tokens_per_second": tokens / row["sampling_seconds"]}
    return row | {"tokens_per_second_with_push": tokens / row["seconds"]}


def shares(rows: list[dict[str, Any]], main: tuple[str, int]) -> dict[str, Any]:
    """What follows from the rows; a share is null where one of its sides was not measured."""
    bare = {(row["model"], row["prompt_tokens"]): row for row in rows if row["side"] == "bare"}
    for row in rows:
        beside = bare.get((row["model"], row["prompt_tokens"]))
        row["share_of_bare_vllm"] = beside and row["tokens_per_second"] / beside["tokens_per_second"]
    own = {(row["model"], row["prompt_tokens"]): row for row in rows if row["side"] == "vllm"}
    at_main = own.get(main)
    all_shares = [row["share_of_bare_vllm"] for row in own.values() if row["share_of_bare_vllm"] is not None]
    return {
        "share_of_bare_vllm": at_main and at_main["share_of_bare_vllm"],
        "smallest_share_of_bare_vllm": min(all_shares, default=None),
        "push_share": at_main and at_main["push_seconds"] / at_main["seconds"],
        "proof_share": at_main and at_main["proof_seconds"] / at_main["seconds"],
        "main_point": {"model": main[0], "prompt_tokens": main[1]},
        "rows": rows,
    }


def show(found: dict[str, Any]) -> Table:
    """The rows as a table."""
    sizes = found["workload"]
    table = Table(
        title=f"{sizes['groups']} x {sizes['group_size']} x {sizes['completion_tokens']} tokens, {sizes['dtype']}"
    )
    for name in ("model", "prompt", "side", *(title for title, _, _ in COLUMNS)):
        table.add_column(name, justify="left" if name in ("model", "side") else "right")
    for row in found["rows"]:
        values = [(row[key], digits) for _, key, digits in COLUMNS]
        cells = ["" if value is None else f"{value:.{digits}f}" for value, digits in values]
        table.add_row(row["model"], str(row["prompt_tokens"]), row["side"], *cells)
    return table
