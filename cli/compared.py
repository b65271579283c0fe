"""Prints what `rlft compare` has found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.table import Table

from mlops.display.terminal import Terminal, styled

_LONGEST, _ATTEMPTS = 300, 2  # characters of a text, and attempts of one model at a task, that are shown
_LONGEST_VALUE = 24  # characters of a setting or a fingerprint


def show_comparison(console: Terminal, found: dict[str, Any]) -> None:
    """Print a comparison as `mlops.stored.contrasted.make_comparison` returns it."""
    _show_runs(console, found)
    for key, some, none in (
        ("settings", "Settings that differ", "The settings are the same"),
        ("code", "Code that differs", "The code is the same"),
        ("data", "Data that differ", "The data are the same"),
    ):
        _show_differing(console, some if found[key] else none, found[key], list(found["runs"]))
    for line in _said_of_rewards(found):
        console.print_behind("  ", line)
    console.print(styled("Which model is better", "bold"))
    for pair in found["pairs"]:
        console.print_behind("  ", _said_of_pair(pair, found["metric"]))
        for name, each in pair["other_metrics"].items():
            console.print_behind("      ", f"{name} {_interval(each)}")
    console.print(styled("Which setting is better", "bold"))
    for line in _said_of_settings(found):
        console.print_behind("  ", line)
    for each in found["solved_by_one"]:
        _show_tasks(console, each, ", each by its own reward" if len(found["rewards"]) > 1 else "")


def _show_runs(console: Terminal, found: dict[str, Any]) -> None:
    left_out = {name: count for name, count in found["left_out"].items() if count}
    text = f"{found['tasks']} tasks of {found['split']} that all runs share"
    if left_out:
        text += "; left out: " + ", ".join(f"{count} of {name}" for name, count in left_out.items())
    console.print(text)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    metrics = list(dict.fromkeys(name for means in found["runs"].values() for name in means))
    for heading in ("run", *metrics):
        table.add_column(heading, overflow="fold")
    for name, means in found["runs"].items():
        table.add_row(name, *(f"{means[metric]:.3f}" if metric in means else "" for metric in metrics))
    console.print(table)


def _show_differing(console: Terminal, title: str, differing: dict[str, dict[str, Any]], runs: list[str]) -> None:
    console.print(styled(title, "bold"))
    if not differing:
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("", *runs):
        table.add_column(heading, overflow="fold")
    for name, values in differing.items():
        table.add_row(name, *(_cut(str(values[run]), _LONGEST_VALUE) for run in runs))
    console.print(table)


def _said_of_rewards(found: dict[str, Any]) -> Iterator[str]:
    """Say what scores by different rewards tell, and how to score all by one."""
    if len(found["rewards"]) == 1:
        return
    groups, metric = found["rewards"], found["metric"]
    yield f"Different rewards scored these runs: {'; another one '.join(', '.join(group) for group in groups)}."
    yield (
        f"So their {metric} is by different rewards. What stands is what each run reached by its own reward, and the "
        "attempts themselves. A difference between them is one of the rewards, too, so no model and no setting is said "
        "to be better by it."
    )
    yield (
        "`rlft rescore RUN --config NEW.yaml` scores the attempts of a run of the old reward by the new one, without "
        "sampling; compare what comes of it with the run of the new reward."
    )


def _said_of_pair(pair: dict[str, Any], metric: str) -> str:
    names = f"{pair['second']} minus {pair['first']}"
    if pair["difference"] is None:
        return f"{names}: {pair['obstacle']}"
    if pair["obstacle"] is not None:
        verdict = f"no evidence, as {pair['obstacle']}"
    elif pair["stands"]:
        better = pair["second"] if pair["difference"]["mean"] > 0 else pair["first"]
        verdict = f"the model of {better} is better"
    else:
        verdict = "no difference is shown"
    return f"{names}: {metric} {_interval(pair['difference'])} ({100 * pair['confidence']:.4g} %): {verdict}"


def _interval(found: dict[str, float]) -> str:
    return f"{found['mean']:+.3f} [{found['low']:+.3f}, {found['high']:+.3f}]"


def _said_of_settings(found: dict[str, Any]) -> Iterator[str]:
    groups = found["groups"]
    if len(groups) == 1:
        yield "All runs have the same setting, and differ in their seed at most."
        return
    names = [chr(ord("A") + number) for number in range(len(groups))]
    for name, group in zip(names, groups, strict=True):
        yield f"{name}: {', '.join(group)}"
    for pair in found["of_settings"]:
        yield _said_of_setting(pair, names, [len(group) for group in groups])


def _said_of_setting(pair: dict[str, Any], names: list[str], sizes: list[int]) -> str:
    first, second = names[pair["first"]], names[pair["second"]]
    text = f"{second} minus {first}: {pair['difference']:+.3f}"
    if pair["obstacle"] is not None:
        return f"{text}: no evidence, as {pair['obstacle']}"
    if pair["low"] is None:
        single = [name for name, at in ((first, pair["first"]), (second, pair["second"])) if sizes[at] == 1]
        why = f"{' and '.join(single)} had one seed each" if single else "all of their runs have the same mean"
        return f"{text}: nobody can say which is better, as {why}. {_seeds(pair)}".rstrip()
    text += f" [{pair['low']:+.3f}, {pair['high']:+.3f}] over seeds ({100 * pair['confidence']:.4g} %)"
    if pair["over_tasks"] is not None:
        text += f", {_interval(pair['over_tasks'])} over tasks"
    if pair["stands"]:
        return f"{text}: {second if pair['difference'] > 0 else first} is better"
    return f"{text}: no difference is shown. {_seeds(pair)}".rstrip()


def _seeds(pair: dict[str, Any]) -> str:
    """Return how many seeds would find the difference, if it is what was seen here."""
    if pair["difference"] == 0:
        return ""
    least = pair["least_over_tasks"]
    if least is None:
        return "No number of seeds shows a difference on so few tasks."
    if abs(pair["difference"]) <= least:
        tasks = pair["over_tasks"]["tasks"]
        return f"No number of seeds finds it on these {tasks} tasks, which show a difference above {least:.3f} at best."
    said = []
    for each in pair["seeds_needed"]:
        count = "more than 1000" if each["runs"] is None else str(each["runs"])
        said.append(count if each["spread"] is None else f"{count} if they spread by {each['spread']:g}")
    return f"A difference of this size is found four times out of five with so many seeds of each: {', '.join(said)}."


def _show_tasks(console: Terminal, found: dict[str, Any], how: str) -> None:
    heading = f"Tasks that {found['solver']} solves more often than {found['other']}{how}: {found['count']}"
    console.print(styled(heading, "bold"))
    for task in found["tasks"]:
        console.print_behind("  ", f"{task['id']}: {_cut(task['prompt'], _LONGEST)}")
        for run, attempts in task["attempts"].items():
            for each in attempts[:_ATTEMPTS]:
                reward = "no score" if each["reward"] is None else f"{each['reward']:g}"
                console.print_behind("    ", f"{run} ({reward}): {_cut(each['text'], _LONGEST)}")


def _cut(text: str, longest: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[:longest]} ..."
