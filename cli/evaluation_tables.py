"""Tables of what an evaluation came to, which leave every number whole, however narrow the terminal is.

Where a table with a row for each model is too wide, each of its numbers has a row of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from rlft.reporting.terminal import Terminal, styled

_SHOWN = ("accuracy", "reward", "pass_at_k", "maj_at_k")


def metrics_table(console: Terminal, cell: str, split: str, of_models: Mapping[str, Any]) -> Table:
    """Return the metrics of the models at one split of a cell, in a table that fits the console."""
    there = {label: each["splits"][split] for label, each in of_models.items() if split in each["splits"]}
    tasks = max(each["tasks"] for each in there.values())
    n = max(each["num_samples"] for each in there.values())
    names = _metrics(there, n)
    times = "once" if n == 1 else f"{n} times"
    title = f"{cell} ({split}): {tasks} tasks, {times} each"
    cells = {label: [_cell(each["metrics"].get(name), name) for name in names] for label, each in there.items()}
    wide = _table(title, ["", *(_heading(name, n) for name in names)], [[label, *row] for label, row in cells.items()])
    if _fits(console, wide):
        return wide
    rows = [[_heading(name, n), label, row[place]] for place, name in enumerate(names) for label, row in cells.items()]
    return _table(title, ["metric", "model", "value"], rows)


def slice_tables(
    console: Terminal, cell: str, split: str, of_models: Mapping[str, Any], metric: str
) -> Iterator[Table]:
    """Yield for each column of slices the metric of the models by its values, in a table that fits the console."""
    columns = dict.fromkeys(
        column for each in of_models.values() for column in each["splits"].get(split, {}).get("slices", {})
    )
    for column in columns:
        title = f"{metric} on {cell} ({split}) by {column}"
        sliced = {
            label: each["splits"].get(split, {}).get("slices", {}).get(column, {}) for label, each in of_models.items()
        }
        found = {
            value: [each.get(value, {}).get(metric) for each in sliced.values()]
            for value in dict.fromkeys(value for each in sliced.values() for value in each)
        }
        counts = {value: str(max((one["count"] for one in row if one), default=0)) for value, row in found.items()}
        cells = {value: [_cell(one, metric) for one in row] for value, row in found.items()}
        wide = _table(
            title, [column, *of_models, "tasks"], [[value, *row, counts[value]] for value, row in cells.items()]
        )
        if _fits(console, wide):
            yield wide
            continue
        rows = [
            [value, label, each, counts[value]]
            for value, row in cells.items()
            for label, each in zip(of_models, row, strict=True)
        ]
        yield _table(title, [column, "model", "value", "tasks"], rows)


def _metrics(there: Mapping[str, Any], n: int) -> list[str]:
    """Return which metrics are shown of models that attempted each task `n` times."""
    names = [name for name in _SHOWN if any(name in each["metrics"] for each in there.values())]
    names = [name for name in names if n > 1 or name in ("accuracy", "reward")]
    return names + [name for name in ("turns", "tool_calls", "sampled_tokens", "seconds") if _is_known(name, there)]


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table whose first two columns, which are names where it is narrow, may be folded; numbers never."""
    table = Table(title=styled(title), title_justify="left")
    for place, heading in enumerate(headings):
        table.add_column(styled(heading), overflow="fold", no_wrap=place > 1)
    for row in rows:
        table.add_row(*map(styled, row))
    return table


def _fits(console: Terminal, table: Table) -> bool:
    """Return whether a table can be printed with every text on one line."""
    return console.measure(table, options=console.options.update(max_width=10_000)).maximum <= console.width


def _is_known(name: str, there: Mapping[str, Any]) -> bool:
    """Return whether a metric says something: a mean that is not zero (calls) or one (turns) for all models."""
    plain = {"turns": 1.0}.get(name, 0.0)
    return any(name in each["metrics"] and each["metrics"][name]["mean"] != plain for each in there.values())


def _heading(name: str, n: int) -> str:
    return {"pass_at_k": f"pass@{n}", "maj_at_k": f"maj@{n}", "accuracy": f"avg@{n}" if n > 1 else "accuracy"}.get(
        name, name.replace("_", " ")
    )


def _cell(interval: Mapping[str, Any] | None, name: str) -> str:
    if interval is None:
        return "-"
    if name in _SHOWN:
        return f"{interval['mean']:.3f} [{interval['low']:.3f}, {interval['high']:.3f}]"
    return f"{interval['mean']:.3g}"
