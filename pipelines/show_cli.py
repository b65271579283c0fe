"""`rlft show`: rollouts of a past run in the terminal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from pipelines.conversation import number, show_messages, show_parts
from pipelines.guard import guarded
from pipelines.home import find_home
from pipelines.terminal import Terminal, styled

if TYPE_CHECKING:
    from pipelines.stored_rollouts import ScoredRound

console = Terminal()


def show(
    run: Annotated[str, typer.Argument(help="Id or name of a run, or the beginning of either.")],
    round: Annotated[str, typer.Argument(help="Its number from 0, or baseline, warm_start, trained, validation_r001.")],
    rollout: Annotated[str | None, typer.Argument(help="Id, or place from 0; without it all are listed.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Do not cut long texts.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what is stored as JSON.")] = False,
    stack: Annotated[str | None, typer.Option(help="The ZenML stack that the run used, if any.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the full logs.")] = False,
) -> None:
    """Show a rollout of a past run, message by message, with its reward and its fate."""
    with guarded(verbose, None):
        from pipelines.stack import connect

        connect(find_home(), stack)
        from pipelines.stored_rollouts import load_round

        scored = load_round(run, round)
        content = list(scored.rows()) if rollout is None else scored.record(scored.find(rollout))
        if as_json:
            console.write_json(content)
        elif isinstance(content, list):
            _show_list(scored, content)
        else:
            show_record(content, full=full)


def _show_list(scored: ScoredRound, rows: list[dict[str, Any]]) -> None:
    table = Table("", "rollout", "total", "turns", "tool calls", "stop", "error", box=None)
    for row in rows:
        cells = [str(row[name]) for name in ("turns", "tool_calls", "stop_reason")]
        error = styled(row["error"] or "", "red")
        table.add_row(str(row["index"]), row["rollout_id"], number(row["total"]), *cells, error)
    console.print(table)
    console.print(styled(f"{len(rows)} rollouts of {scored.name}"))


def show_record(record: dict[str, Any], *, full: bool) -> None:
    """One rollout: its conversation, its reward, and how it came to be."""
    console.print(styled(record["rollout_id"], "bold underline"))
    show_messages(console, record["messages"], full=full)
    console.print()
    reward = record["reward"]
    if reward is not None:
        show_parts(console, reward["parts"], reward["weights"], reward["total"])
    tokens = record["tokens"]
    facts = {
        "scoring": reward and reward["error"],
        "error": record["error"],
        "stop": record["stop_reason"] + (", truncated" if record["truncated"] else ""),
        "turns": f"{record['turns']}, {record['tool_calls']} tool calls, {record['tool_errors']} failed",
        "tokens": f"{tokens['prompt']} prompt, {tokens['sampled']} sampled, {tokens['told']} told",
        "answer": reward and reward["answer"],
        "fate": record["fate"],
        "policy": record["policy"],
        "sampling": record["sampling"],
        "state": json.dumps(record["state"], ensure_ascii=False) if record["state"] else None,
        "seconds": f"{record['seconds']:.2f}",
    }
    for name, fact in facts.items():
        if fact:
            console.print(styled(f"{name:<9} {fact}", "red" if name in ("error", "scoring") else ""))
