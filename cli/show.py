"""`rlft show`: rollouts of a past run in the terminal.

What a model or a tool wrote may hold anything; it cannot steer the terminal (`rlft.reporting.terminal`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from shlex import quote
from typing import Annotated, Any

import typer

from cli.guard import guarded
from cli.options import AnyRun, ResultAsJson, UsedStack, Verbose
from mlops.home.folder import find_home
from rlft.messages import marked
from rlft.reporting.terminal import Terminal, console, plain_table, styled

_TEXT = 60  # characters of prompt, answer and right answer together in the list
LONGEST = 1500  # characters of a message or a call
_LONGEST_NAME = 60  # characters of a tool's name
_STYLES = {"system": "dim", "user": "bold cyan", "assistant": "bold green", "tool": "bold yellow"}


class Kind(StrEnum):
    """The kinds of rollouts that `--only` can list."""

    SOLVED = "solved"
    UNSOLVED = "unsolved"
    ERRORS = "errors"
    TOOL_ERRORS = "tool-errors"


_IS_OF_KIND: dict[Kind, Callable[[dict[str, Any]], bool]] = {
    Kind.SOLVED: lambda row: row["solved"] is True,
    Kind.UNSOLVED: lambda row: row["solved"] is False,
    Kind.ERRORS: lambda row: row["error"] is not None,
    Kind.TOOL_ERRORS: lambda row: row["tool_errors"] > 0,
}


def show(
    run: AnyRun,
    round: Annotated[
        str,
        typer.Argument(
            help="Number of a round, from 0, or name of an evaluation, such as baseline, validation_r001 or final."
        ),
    ],
    rollout: Annotated[str | None, typer.Argument(help="Id of a rollout, or its number in the list.")] = None,
    only: Annotated[Kind | None, typer.Option(help="List only rollouts of this kind.")] = None,
    limit: Annotated[
        int, typer.Option(help="List at most so many rollouts; 0 lists all, and --json has no limit.", min=0)
    ] = 50,
    full: Annotated[bool, typer.Option("--full", help="Do not cut long texts.")] = False,
    as_json: ResultAsJson = False,
    stack: UsedStack = None,
    verbose: Verbose = False,
) -> None:
    """Show a rollout of a past run, message by message, with its reward and its fate.

    Without ROLLOUT the rollouts of the round are listed, the best and the worst of them first.
    """
    with guarded(verbose, None):
        home = find_home()
        from mlops.runs.results import load_round, open_run

        scored = load_round(open_run(home, run, stack), round)
        if rollout is None:
            rows = [row for row in scored.rows() if only is None or _IS_OF_KIND[only](row)]
            if as_json:
                console.write_json(rows)
            else:
                there = f" --stack {quote(stack)}" if stack else ""
                _show_list(scored.name, rows, limit, f"rlft show {quote(run)} {quote(round)}", there)
        else:
            record = scored.record(scored.find(rollout))
            console.write_json(record) if as_json else show_record(record, full=full)


def _show_list(name: str, rows: list[dict[str, Any]], limit: int, command: str, there: str) -> None:
    """Print the best and the worst of the rows, `limit` in all (0: all rows), and the `command` that shows one of them.

    What has no score stands last. `there` are the command's options.
    """
    shown = sorted(rows, key=lambda row: (row["total"] is None, -(row["total"] or 0)))
    if is_cut := 0 < limit < len(rows):
        shown = shown[: (limit + 1) // 2] + shown[len(rows) - limit // 2 :]
    failed = any(row["error"] for row in shown)
    texts = _texts(shown, _TEXT)
    table = plain_table("", *texts, "reward", *["error"] * failed)
    for row, *said in zip(shown, *texts.values(), strict=True):
        table.add_row(str(row["index"]), *said, number(row["total"]), *[styled(row["error"] or "", "red")] * failed)
    console.print(table)
    more = f", of which the {len(shown)} best and worst are listed (--limit 0 lists all)" if is_cut else ""
    kinds = " | ".join(Kind)
    console.print(styled(f"{len(rows)} rollouts of {name}{more}; --only {kinds} lists some of them"))
    if shown:
        console.print(styled(f"`{command} {shown[0]['index']}{there}` shows the first one's conversation"))


def _texts(rows: list[dict[str, Any]], space: int) -> dict[str, list[str]]:
    """Return what the list shows of the texts of all rows, by column, in so many characters together.

    Of texts it is the beginning, but of prompts what comes after the words with which all of them begin. A column in
    which nothing stands is left out.
    """
    prompts = [tuple(_in_words(row["prompt"]).split()) for row in rows]
    common = 0
    while len({*prompts}) > 1 and len({prompt[: common + 1] for prompt in prompts}) == 1:
        common += 1
    # of an answer that could not be read all that is said
    answers = [_in_words(row["said"] if row["answer"] is None else row["answer"]) for row in rows]
    golds = [_in_words(row["right_answer"]) for row in rows]
    columns = {"prompt": [" ".join(prompt[common:]) for prompt in prompts], "answer": answers, "right answer": golds}
    columns = {name: texts for name, texts in columns.items() if any(texts)}
    return {
        name: [" ".join(text[: space // len(columns)].split()) for text in texts] for name, texts in columns.items()
    }


def _in_words(answer: Any) -> str:
    """Return an answer, which may be any JSON value, as a person reads it; `None` is empty."""
    return (answer or "") if isinstance(answer, str | None) else json.dumps(answer, ensure_ascii=False)


def show_record(record: dict[str, Any], *, full: bool) -> None:
    """Print one rollout, which is a `ScoredRound.record`: its conversation, its reward, and how it was sampled."""
    console.print(styled(record["rollout_id"], "bold underline"))
    show_messages(console, record["messages"], full=full)
    console.print()
    reward = record["reward"]
    if reward is not None:
        show_parts(console, reward["parts"], reward["weights"], reward["total"])
    facts = {
        "scoring": reward and reward["error"],
        "error": record["error"],
        "stop": record["stop_reason"] + (", truncated" if record["truncated"] else ""),
        "turns": f"{record['turns']}, {record['tool_calls']} tool calls, {record['tool_errors']} failed",
        "tokens": _tokens(record["tokens"]),
        "right answer": _in_words(record["right_answer"]),
        "model's answer": reward and reward["answer"],
        "fate": record["fate"],
        "age": record["age"] and f"sampled by the policy of {record['age']} round of training before",
        "drawn": record["drawn"],
        "policy": record["policy"],
        "sampling": record["sampling"],
        "state": json.dumps(record["state"], ensure_ascii=False) if record["state"] else None,
        "seconds": f"{record['seconds']:.2f}",
    }
    for name, fact in facts.items():
        if fact:
            console.print_behind(f"{name:<14} ", str(fact), "red" if name in ("error", "scoring") else "")


def _tokens(tokens: dict[str, int]) -> str:
    """Return the counts of tokens in words; a rollout without any is one of a model behind an address."""
    if not any(tokens.values()):
        return "not known"
    return f"{tokens['prompt']} prompt, {tokens['sampled']} sampled, {tokens['told']} told"


def show_messages(console: Terminal, messages: Sequence[Mapping[str, Any]], *, full: bool = False) -> None:
    """Print every message under its role, tool calls as `name(argument=value)`; long texts are cut unless `full`.

    The result of a call that failed is marked. A call that could not be read is shown as the model wrote it, with the
    place at which reading stopped marked.
    """
    turn = 0
    for message in messages:
        role = str(message["role"])
        turn += role == "assistant"
        title = {"assistant": f"assistant, turn {turn}", "tool": f"tool {_in_one_line(message.get('name'))}".rstrip()}
        if role == "tool" and message.get("failed"):
            console.print(styled(f"{title[role]}, failed", "bold red"))
        else:
            console.print(styled(title.get(role, role), _STYLES.get(role, "bold")))
        if message["content"]:
            console.print_behind("  ", cut(message["content"], full))
        for call in message.get("tool_calls", ()):
            console.print_behind("  ", cut(call_text(call), full), "yellow")
        for call in message.get("invalid_tool_calls", ()):
            if call["text"]:
                console.print_behind("  not read: ", cut(marked(call["text"], call["position"]), full), "red")


def show_parts(
    console: Terminal, parts: Mapping[str, float | None], weights: Mapping[str, float], total: float | None
) -> None:
    """Print the parts of a reward with their weights, and its total; a part that does not apply is a dash."""
    table = plain_table("part", "score", "weight")
    for name, score in parts.items():
        table.add_row(name, number(score), number(weights.get(name, 1.0)))
    table.add_row("total", number(total), "", style="bold")
    console.print(table)


def call_text(call: Mapping[str, Any]) -> str:
    """Return a tool call as a person would write it: `search(query="moon", count=3)`."""
    function = call["function"]
    arguments = function["arguments"].items()
    given = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments)
    return f"{function['name']}({given})"


def cut(text: str, full: bool) -> str:
    """Return the first `LONGEST` characters of a text and how many are missing, or with `full` the whole text."""
    if full or len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]} ... ({len(text) - LONGEST} more characters; --full shows them)"


def _in_one_line(name: str | None) -> str:
    """Return a tool's name in one line, cut if it is long: a model may have called anything a tool."""
    return " ".join((name or "").split())[:_LONGEST_NAME]


def number(value: float | None) -> str:
    """Return a score with at most three decimals, or a dash for `None`."""
    return "-" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")
