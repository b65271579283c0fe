"""The sentences of `rlft compare`: what scores tell of runs, of their models and of their settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlft.evaluation.contrasts import is_too_few

Names = Mapping[str, str]  # what each run is called in the output
_MOST_STARTS = 5  # sentences on better starts
_BY_SPREAD = "if they spread by"


def said_of_starts(found: dict[str, Any], names: Names) -> Iterator[str]:
    """Say which runs score higher than others although they gained less, as they started higher."""
    for pair in found["better_starts"][:_MOST_STARTS]:
        higher, lower = (found["training"][pair[side]] for side in ("higher", "lower"))
        one, other = names[pair["higher"]], names[pair["lower"]]
        yield (
            f"{one} scores higher than {other} after training ({higher['after']:.3f}, {lower['after']:.3f}) and gained "
            f"less ({higher['gain']['mean']:+.3f}, {lower['gain']['mean']:+.3f}): it had the better start "
            f"({higher['before']:.3f}, {lower['before']:.3f})."
        )
    if (more := len(found["better_starts"]) - _MOST_STARTS) > 0:
        yield f"{more} more pairs are like this; `--json` lists them under `better_starts`."


def said_of_metrics(found: dict[str, Any], names: Names) -> Iterator[str]:
    """Say in which metric runs are compared that chose their best rounds by different ones, and how to take another."""
    metrics, metric = found["metrics"], found["metric"]
    if len(set(metrics.values())) == 1:
        return
    yield (
        f"These runs chose their best rounds by different metrics: {_by_value(metrics, names)}. They are compared in "
        f"{metric}: that of the first run that is named, if all have it, and in accuracy otherwise. Name another run "
        "first to compare in its metric, and choose the metric before looking at the result."
    )


def said_of_rewards(found: dict[str, Any], names: Names) -> Iterator[str]:
    """Say what scores by different rewards tell, and how to score all by one."""
    if len(found["rewards"]) == 1:
        return
    groups, metric = found["rewards"], found["metric"]
    listed = "; another one ".join(_listed(group, names) for group in groups)
    yield f"Different rewards scored these runs: one {listed}."
    yield (
        f"So their {metric} is by different rewards. What stands is what each run reached by its own reward, and the "
        "attempts themselves. A difference between them is one of the rewards, too, so no model and no setting is said "
        "to be better by it."
    )
    yield (
        "`rlft rescore RUN --config NEW.yaml` scores the attempts of a run of the old reward by the new one, without "
        "sampling; compare what comes of it with the run of the new reward."
    )


def said_of_sampling(found: dict[str, Any], names: Names) -> Iterator[str]:
    """Say what scores tell of attempts that were sampled in different ways, and how to measure all in one way."""
    if len(found["sampled"]) == 1:
        return
    listed = "; ".join(_listed(group, names) for group in found["sampled"])
    ways = [f"{setting} is {_by_value(values, names)}" for setting, values in found["sampling"].items()]
    if not ways:
        ways = ["the code of their environment's prompts and tools is not the same"]
    yield f"The attempts at these tasks were sampled in different ways ({listed}): {'; '.join(ways)}."
    yield (
        f"The same weights score differently by that alone, so a difference in {found['metric']} is shown, and no "
        "model and no setting is said to be better by it."
    )
    yield (
        "`rlft evaluate RUN:best RUN:best --suite CONFIG.yaml` measures the trained models of these runs in one way, "
        "that of the config or suite."
    )


def said_of_weights(found: dict[str, Any], names: Names) -> Iterator[str]:
    """Say which runs have ended with the same weights."""
    for group in found["same_weights"]:
        yield f"{_listed(group, names)} have trained the same weights: none of these models is better than another."


def _by_value(values: dict[str, Any], names: Names) -> str:
    """Return `1.0 in A, B and 0.0 in C`."""
    runs: dict[str, list[str]] = {}
    for run, value in values.items():
        runs.setdefault("null" if value is None else str(value), []).append(run)
    return " and ".join(f"{value} in {_listed(group, names)}" for value, group in runs.items())


def said_of_pair(pair: dict[str, Any], metric: str, names: Names) -> str:
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
    return f"{both}: {metric} {interval(pair['difference'])} ({100 * pair['confidence']:.4g} %): {verdict}"


def interval(found: dict[str, float]) -> str:
    """Return a difference with its interval."""
    return f"{found['mean']:+.3f} [{found['low']:+.3f}, {found['high']:+.3f}]"


def said_of_settings(found: dict[str, Any], names: Names) -> Iterator[str]:
    """Say which runs have which setting, and which setting is better."""
    groups = found["groups"]
    if len(groups) == 1:
        yield "All runs have the same setting, and differ in their seed at most."
        return
    for number, (group, seeds) in enumerate(zip(groups, found["seeds"], strict=True), start=1):
        reruns = f" ({_counted(seeds)}; runs of one seed count as one)" if seeds < len(group) else ""
        yield f"setting {number}: {_listed(group, names)}{reruns}"
    said = [_said_of_setting(pair, found["seeds"]) for pair in found["of_settings"]]
    yield from said
    if any(_BY_SPREAD in line for line in said):
        yield "How far seeds spread on these tasks, three runs of one setting with other seeds tell: begin with these."


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
        if min(counts) == 2 < max(counts):
            why += ": two seeds beside more are too few, and a third makes three"
        return f"{text}: nobody can say which is better, as {why}. {_seeds(pair)}".rstrip()
    text += f" [{pair['low']:+.3f}, {pair['high']:+.3f}] over seeds and tasks ({100 * pair['confidence']:.4g} %)"
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
    found = "A difference of this size is found four times out of five with"
    if pair["seeds_between"] is not None:
        (known,) = pair["seeds_needed"]
        least, most = map(_number, pair["seeds_between"])
        about = f"{found} {_number(known['runs'])} seeds of each"
        if least == most:
            return f"{about}."
        return f"{about}, or {least} to {most}: so few seeds tell no more of how far seeds spread (95 %)."
    said = [f"{_number(each['runs'])} {_BY_SPREAD} {each['spread']:g}" for each in pair["seeds_needed"]]
    return f"{found} so many seeds of each: {', '.join(said)}."


def _number(seeds: int | None) -> str:
    return "more than 1000" if seeds is None else str(seeds)


def _counted(seeds: int) -> str:
    return "one seed" if seeds == 1 else f"{seeds} seeds"


def _listed(runs: list[str], names: Names) -> str:
    return ", ".join(names[run] for run in runs)
