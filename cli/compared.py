"""Prints what `rlft compare` has found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table

from rlft.evaluation.contrasts import is_too_few
from rlft.reporting.terminal import Terminal, styled

_LONGEST, _ATTEMPTS = 300, 2  # characters of a text, and attempts of one model at a task, that are shown
_LONGEST_VALUE = 24  # characters of a setting or a fingerprint
_LONGEST_NAME = 24  # characters of a run's name; with a longer one among them all runs have a letter
Names = Mapping[str, str]  # what each run is called in the output


def show_comparison(console: Terminal, found: dict[str, Any]) -> None:
    """Print a comparison as `cli.contrasted.make_comparison` returns it."""
    names = _names(console, list(found["runs"]))
    _show_runs(console, found, names)
    for key, some, none in (
        ("settings", "Settings that differ", "The settings are the same"),
        ("code", "Code that differs", "The code is the same"),
        ("data", "Data that differ", "The data are the same"),
        ("sampling", "How attempts were sampled", "The attempts were sampled by the same settings"),
    ):
        _show_differing(console, some if found[key] else none, found[key], names)
    console.print(styled("Which model is better", "bold"))
    for pair in found["pairs"]:
        console.print_behind("  ", _said_of_pair(pair, found["metric"], names))
        for name, each in pair["other_metrics"].items():
            console.print_behind("      ", f"{name} {_interval(each)}")
    console.print(styled("Which setting is better", "bold"))
    for line in _said_of_settings(found, names):
        console.print_behind("  ", line)
    for each in found["solved_by_one"]:
        _show_tasks(console, each, names)


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
        gain = "not known" if each["gain"] is None else _interval(each["gain"])
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


def _show_tasks(console: Terminal, found: dict[str, Any], names: Names) -> None:
    solver, other = names[found["solver"]], names[found["other"]]
    title = f"Tasks that {solver} solves more often than {other}: {found['count']}"
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


def _said_of_pair(pair: dict[str, Any], metric: str, names: Names) -> str:
    """Say which of two models is better, with the interval of their difference."""
    first, second = names[pair["first"]], names[pair["second"]]
    both = f"{second} minus {first}"
    if pair["difference"] is None:
        return f"{both}: {pair['obstacle']}"
    if pair["obstacle"] is not None:
        verdict = f"no evidence, as {pair['obstacle']}"
    elif pair["stands"]:
        better = second if pair["difference"]["mean"] > 0 else first
        verdict = f"the model of {better} is better"
    else:
        verdict = "no difference is shown"
    return f"{both}: {metric} {_interval(pair['difference'])} ({100 * pair['confidence']:.4g} %): {verdict}"


def _interval(found: dict[str, float]) -> str:
    """Return a difference with its interval."""
    return f"{found['mean']:+.3f} [{found['low']:+.3f}, {found['high']:+.3f}]"


def _said_of_settings(found: dict[str, Any], names: Names) -> Iterator[str]:
    """Yield which runs have which setting, and which setting is better."""
    groups = found["groups"]
    if len(groups) == 1:
        yield "All runs have the same setting, and differ in their seed at most."
        return
    for number, (group, seeds) in enumerate(zip(groups, found["seeds"], strict=True), start=1):
        reruns = f" ({_counted(seeds)}; runs of one seed count as one)" if seeds < len(group) else ""
        yield f"setting {number}: {', '.join(names[run] for run in group)}{reruns}"
    for pair in found["of_settings"]:
        yield _said_of_setting(pair, found["seeds"])


def _said_of_setting(pair: dict[str, Any], seeds: list[int]) -> str:
    first, second = (f"setting {pair[side] + 1}" for side in ("first", "second"))
    text = f"{second} minus {first}: {pair['difference']:+.3f}"
    if pair["obstacle"] is not None:
        return f"{text}: no evidence, as {pair['obstacle']}"
    if pair["low"] is None:
        counts = [seeds[pair[side]] for side in ("first", "second")]
        why = "all of their seeds have the same mean" if pair["over_tasks"] else "no task was scored for both"
        if is_too_few(*counts):
            why = f"{first} had {_counted(counts[0])} and {second} had {_counted(counts[1])}"
        return f"{text}: nobody can say which is better, as {why}"
    text += f" [{pair['low']:+.3f}, {pair['high']:+.3f}] over seeds and tasks ({100 * pair['confidence']:.4g} %)"
    if pair["stands"]:
        return f"{text}: {second if pair['difference'] > 0 else first} is better"
    return f"{text}: no difference is shown"


def _counted(seeds: int) -> str:
    return "one seed" if seeds == 1 else f"{seeds} seeds"
