"""`rlft compare`: what differs between runs, and which model, or which setting, is better."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from cli.guard import guarded
from cli.options import ResultAsJson, UsedStack, Verbose
from mlops.home.folder import find_home
from rlft.errors import RlftError
from rlft.evaluation.gates import CHOOSING
from rlft.reporting.terminal import Terminal, console, errors, plain_table, styled

_MOST_RUNS = 20
_LONGEST = 300  # characters of a prompt
_LONGEST_VALUE = 24  # characters of a setting or a fingerprint
_LONGEST_NAME = 24  # characters of a run's name; with a longer one among them all runs have a letter
Names = Mapping[str, str]  # what each run is called in the output


class ComparedSplit(StrEnum):
    """The splits on which runs evaluate their trained policy."""

    TEST = "test"
    GATE = "gate"
    OFF_DISTRIBUTION = "off_distribution"


def compare(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="RUN RUN [RUN ...]", help="Ids or names of at least two runs.")
    ] = None,
    split: Annotated[ComparedSplit, typer.Option(help="The tasks on which they are compared.")] = ComparedSplit.TEST,
    tasks: Annotated[
        int, typer.Option(help="Show so many tasks that one solves and the other does not, each way.", min=0, max=1000)
    ] = 3,
    as_json: ResultAsJson = False,
    stack: UsedStack = None,
    verbose: Verbose = False,
) -> None:
    """Put runs side by side: what differs in settings, tasks and code, and which trained model is better, task by task.

    Whether a setting is better, several runs of each with other seeds can tell.
    """
    with guarded(verbose, None):
        runs = runs or []
        if not 2 <= len(runs) <= _MOST_RUNS:
            fix = f"name two to {_MOST_RUNS} runs; `rlft runs` lists them"
            raise RlftError(f"the number of runs is {len(runs)}", where="RUN", fix=fix)
        home = find_home()
        from cli.contrasted import make_comparison, stored_runs
        from mlops.runs.results import open_run

        if split is ComparedSplit.GATE:
            errors.print(CHOOSING)
        found = make_comparison(
            stored_runs([open_run(home, run, stack) for run in runs], split.value), split.value, tasks
        )
        console.write_json(found) if as_json else show_comparison(console, found)


def show_comparison(console: Terminal, found: dict[str, Any]) -> None:
    """Print a comparison as `cli.contrasted.make_comparison` returns it."""
    names = _names(console, list(found["runs"]))
    _show_runs(console, found, names)
    _show_differing(console, found, names)
    console.print(styled("Which model is better", "bold"))
    for pair in found["pairs"]:
        console.print_behind("  ", _said_of_pair(pair, found["metric"], names))
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
    metrics = dict.fromkeys(metric for means in found["runs"].values() for metric in means if metric != found["metric"])
    table = plain_table("run", "status", "before", "after", f"gain in {found['metric']} (95 %)", *metrics)
    for name, each in found["training"].items():
        before = "-" if each["before"] is None else f"{each['before']:.3f}"
        gain = "not known" if each["gain"] is None else _interval(each["gain"])
        means = found["runs"][name]
        others = (f"{means[metric]:.3f}" if metric in means else "" for metric in metrics)
        table.add_row(names[name], each["status"], before, f"{each['after']:.3f}", gain, *others)
    console.print(table)


def _show_differing(console: Terminal, found: dict[str, Any], names: Names) -> None:
    differing = {**found["settings"], **found["code"], **found["data"]}
    console.print(styled("What differs" if differing else "Settings, code and data are the same", "bold"))
    table = plain_table("", *names.values())
    for name, values in differing.items():
        table.add_row(name, *(_cut(str(values[run]), _LONGEST_VALUE) for run in names))
    if differing:
        console.print(table)


def _show_tasks(console: Terminal, found: dict[str, Any], names: Names) -> None:
    solver, other = names[found["solver"]], names[found["other"]]
    title = f"Tasks that {solver} solves more often than {other}: {found['count']}"
    console.print(styled(f"{title} ({found['by_chance']:g} if both were equal)", "bold"))
    for task in found["tasks"]:
        solved = ", ".join(f"{names[run]} {share:.0%}" for run, share in task["solved"].items())
        console.print_behind("  ", f"{task['id']} ({solved}): {_cut(task['prompt'], _LONGEST)}")


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
    """Yield which runs have which setting, what it has gained over its seeds, and which setting is better."""
    groups = found["groups"]
    if len(groups) == 1:
        yield f"All runs have the same setting, and differ in their seed at most{_gained(found['gains'][0])}."
        return
    for number, (group, seeds) in enumerate(zip(groups, found["seeds"], strict=True), start=1):
        reruns = f" ({_counted(seeds)}; runs of one seed count as one)" if seeds < len(group) else ""
        gained = _gained(found["gains"][number - 1])
        yield f"setting {number}: {', '.join(names[run] for run in group)}{reruns}{gained}"
    for pair in found["of_settings"]:
        yield _said_of_setting(pair, found["seeds"])


def _gained(gain: dict[str, Any] | None) -> str:
    """Return what a setting has gained in the mean of its seeds; empty for one seed."""
    if gain is None:
        return ""
    if gain["low"] is None:
        return f"; gain {gain['mean']:+.3f} for every seed"
    return f"; gain {_interval(gain)} over seeds and tasks (95 %)"


def _said_of_setting(pair: dict[str, Any], seeds: list[int]) -> str:
    from rlft.evaluation.contrasts import is_too_few  # imports numpy

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
