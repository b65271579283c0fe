"""Prints what `rlft compare` has found."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from cli.compared_sentences import (
    Names,
    interval,
    said_of_metrics,
    said_of_pair,
    said_of_rewards,
    said_of_sampling,
    said_of_settings,
    said_of_starts,
    said_of_weights,
)
from rlft.reporting.terminal import Terminal, styled

_LONGEST, _ATTEMPTS = 300, 2  # characters of a text, and attempts of one model at a task, that are shown
_OWN = {"rewards": ", each by its own reward", "sampled": ", each sampled in its own way"}
_LONGEST_VALUE = 24  # characters of a setting or a fingerprint
_LONGEST_NAME = 24  # characters of a run's name; with a longer one among them all runs have a letter


def show_comparison(console: Terminal, found: dict[str, Any]) -> None:
    """Print a comparison as `cli.contrasted.make_comparison` returns it."""
    names = _names(console, list(found["runs"]))
    _show_runs(console, found, names)
    for line in (*said_of_metrics(found, names), *said_of_starts(found, names)):
        console.print_behind("  ", line)
    for key, some, none in (
        ("settings", "Settings that differ", "The settings are the same"),
        ("code", "Code that differs", "The code is the same"),
        ("data", "Data that differ", "The data are the same"),
    ):
        _show_differing(console, some if found[key] else none, found[key], names)
    for say in (said_of_rewards, said_of_sampling, said_of_weights):
        for line in say(found, names):
            console.print_behind("  ", line)
    console.print(styled("Which model is better", "bold"))
    for pair in found["pairs"]:
        console.print_behind("  ", said_of_pair(pair, found["metric"], names))
        for name, each in pair["other_metrics"].items():
            console.print_behind("      ", f"{name} {interval(each)}")
    console.print(styled("Which setting is better", "bold"))
    for line in said_of_settings(found, names):
        console.print_behind("  ", line)
    for each in found["solved_by_one"]:
        both = {each["solver"], each["other"]}
        own = [what for what in _OWN if not any(both <= set(group) for group in found[what])]
        _show_tasks(console, each, names, "".join(_OWN[what] for what in own))


def _names(console: Terminal, runs: list[str]) -> Names:
    """Return what the runs are called below: A, B, C, which a list explains, if one of them has a long name."""
    if all(len(run) <= _LONGEST_NAME for run in runs):
        return {run: run for run in runs}
    letters = {run: chr(ord("A") + number) for number, run in enumerate(runs)}
    for run, letter in letters.items():
        console.print_behind(f"{letter}: ", run)
    return letters


def _show_runs(console: Terminal, found: dict[str, Any], names: Names) -> None:
    left_out = {name: count for name, count in found["left_out"].items() if count}
    text = f"{found['tasks']} tasks of {found['split']} that all runs share"
    if left_out:
        text += "; left out: " + ", ".join(f"{count} of {names[name]}" for name, count in left_out.items())
    console.print(text)
    table = _table("run", "status", "before", "after", f"gain in {found['metric']} (95 %)")
    for name, each in found["training"].items():
        before = "-" if each["before"] is None else f"{each['before']:.3f}"
        gain = "not known" if each["gain"] is None else interval(each["gain"])
        table.add_row(names[name], each["status"], before, f"{each['after']:.3f}", gain)
    console.print(table)
    metrics = list(dict.fromkeys(name for means in found["runs"].values() for name in means))
    console.print(styled("Means of the trained models", "bold"))
    table = _table("run", *metrics)
    for name, means in found["runs"].items():
        table.add_row(names[name], *(f"{means[metric]:.3f}" if metric in means else "" for metric in metrics))
    console.print(table)


def _table(*headings: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _show_differing(console: Terminal, title: str, differing: dict[str, dict[str, Any]], names: Names) -> None:
    console.print(styled(title, "bold"))
    if not differing:
        return
    table = _table("", *names.values())
    for name, values in differing.items():
        table.add_row(name, *(_cut(str(values[run]), _LONGEST_VALUE) for run in names))
    console.print(table)


def _show_tasks(console: Terminal, found: dict[str, Any], names: Names, how: str) -> None:
    solver, other = names[found["solver"]], names[found["other"]]
    title = f"Tasks that {solver} solves more often than {other}{how}: {found['count']}"
    console.print(styled(f"{title} ({found['by_chance']:g} if both were equal)", "bold"))
    for task in found["tasks"]:
        console.print_behind("  ", f"{task['id']}: {_cut(task['prompt'], _LONGEST)}")
        solved = ", ".join(f"{names[run]} {share:.0%}" for run, share in task["solved"].items())
        console.print_behind("    ", f"solved attempts: {solved}")
        for run, attempts in task["attempts"].items():
            for each in attempts[:_ATTEMPTS]:
                reward = "no score" if each["reward"] is None else f"{each['reward']:g}"
                console.print_behind("    ", f"{names[run]} ({reward}): {_cut(each['text'], _LONGEST)}")


def _cut(text: str, longest: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[:longest]} ..."
