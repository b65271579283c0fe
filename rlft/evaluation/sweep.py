"""The variations of a config that a sweep runs, and what their results come to over seeds."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import hypot
from statistics import fmean, stdev

from rlft.errors import ConfigError

SEED = "seed"
MOST_RUNS = 100
Changes = dict[str, str]
"""Settings by their keys, each with a value as `--set` takes it."""


@dataclass(frozen=True, slots=True)
class Score:
    """The mean score on `test` of one run, `before` and `after` its training, in its `metric`.

    `gain_low` and `gain_high` are the ends of the 95 % interval of after minus before over its tasks, with
    errors counted on either side; `None` where they are not known.
    """

    metric: str
    before: float
    after: float
    gain_low: float | None = None
    gain_high: float | None = None


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over runs; `low` and `high` are the ends of its 95 % interval, `None` where there is none."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class SettingResult:
    """What the runs of one setting came to: those that differ in nothing but their seed.

    `changes` are the swept settings but for the seed, and `runs` counts its runs, of which `scored` have a result.
    `after` and `gain` (after minus before) are `None` if none has, or if they have different metrics. The interval of
    `after` is over seeds, on these test tasks; that of `gain` is over seeds and tasks.
    """

    changes: Changes
    runs: int
    scored: int
    metric: str
    after: Mean | None
    gain: Mean | None


def variations(sweeps: Sequence[str]) -> list[Changes]:
    """Return every combination of the values of all sweeps, each of which is a text `KEY=VALUE,VALUE`.

    The last sweep varies fastest. A comma within brackets, braces or quotes belongs to a value. Raises ConfigError for
    another form, a key or value that is given twice, and more than `MOST_RUNS` combinations.
    """
    values = dict[str, list[str]]()
    for sweep in sweeps:
        key, separator, text = sweep.partition("=")
        found = [value.strip() for value in split_values(text)]
        if not separator or not key.strip() or not all(found):
            raise _refused(f"{sweep!r:.80} is no sweep", "write KEY=VALUE,VALUE, as in --sweep seed=0,1,2")
        if key in values:
            raise _refused(f"{key} is swept twice", "give all its values in one --sweep")
        if repeated := [value for value, count in Counter(found).items() if count > 1]:
            raise _refused(f"{key} has the value {repeated[0]!r:.80} twice", "give every value once")
        values[key] = found
    combined = [dict(zip(values, each, strict=True)) for each in product(*values.values())]
    if not 2 <= len(combined) <= MOST_RUNS:
        raise _refused(f"these make {len(combined)} run(s)", f"give values for 2 to {MOST_RUNS} runs")
    return combined


def split_values(text: str) -> list[str]:
    """Return the parts between commas that stand outside of brackets, braces and quotes."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        else:
            depth += (character in "[{(") - (character in "]})")
        if character == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def short_name(changes: Mapping[str, str], most: int = 60, unnamed: int = 0) -> str:
    """Return what differs as a part of a name, such as `learning_rate=3e-4,seed=1`, of at most so many characters.

    Of a key only the last part stands there, unless two keys end in the same. Signs that are no good in a name are
    replaced by `_`. The last settings are left out where there is no room, and counted: `learning_rate=3e-4,+2`. The
    first one always stands there, cut off if it must be. `unnamed` counts more that differ and are not in `changes`.
    """
    ends = Counter(key.rsplit(".", 1)[-1] for key in changes)
    named = {key: end if ends[end := key.rsplit(".", 1)[-1]] == 1 else key for key in changes}
    texts = [re.sub(r"[^\w.,=+-]", "_", f"{named[key]}={value}", flags=re.ASCII) for key, value in changes.items()]
    for shown in range(len(texts), 0, -1):
        left = len(texts) - shown + unnamed
        more = f",+{left}" if left else ""
        name = ",".join(texts[:shown])
        if len(name) + len(more) <= most or shown == 1:
            return name[: most - len(more)].rstrip(",") + more
    return f"+{unnamed}" if unnamed else ""


def short_names(varied: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the short name of each of several changes; those that would be called the same get a digest of theirs.

    None is longer than 60 characters.
    """
    names = [short_name(changes) for changes in varied]
    shared = Counter(names)
    return [
        name if shared[name] == 1 else f"{short_name(changes, 60 - len(digest))}{digest}"
        for name, changes, digest in zip(names, varied, map(_digest, varied), strict=True)
    ]


def _digest(changes: Mapping[str, str]) -> str:
    return "-" + hashlib.sha256(json.dumps(list(changes.items())).encode()).hexdigest()[:8]


def of_settings(runs: Sequence[tuple[Changes, Score | None]]) -> list[SettingResult]:
    """Return the result of each setting, in the order of its first run; `None` stands for a run without a result."""
    found = dict[tuple[tuple[str, str], ...], list[Score | None]]()
    for changes, score in runs:
        setting = tuple((key, value) for key, value in changes.items() if key != SEED)
        found.setdefault(setting, []).append(score)
    return [_result(dict(setting), scores) for setting, scores in found.items()]


def mean_over_runs(values: Sequence[float]) -> Mean:
    """Return the mean of at least one value, and Student's t-interval, which takes them for normally distributed."""
    if len(set(values)) < 2:  # equal values, such as 0 for all, say nothing of how far others would spread
        return Mean(fmean(values), None, None)
    from scipy.special import stdtrit  # commands that only show help need none of it

    mean, width = fmean(values), stdtrit(len(values) - 1, 0.975) * stdev(values) / len(values) ** 0.5
    return Mean(mean, float(mean - width), float(mean + width))


def gain_of(scores: Sequence[Score]) -> Mean:
    """Return the mean of after minus before, with its interval over seeds and over tasks.

    Runs of a sweep share their test tasks and often the start that they are measured beside, so their gains resemble
    each other in what these happen to be, and seeds alone do not show it. So two intervals enter (`over_both`):
    Student's over seeds, and over tasks the mean end of the runs' own intervals. The latter is no closer than the end
    for the tasks' mean scores over seeds, as the deviation of a mean is at most the mean of the deviations. Without the
    runs' own intervals there is none, nor for one run or equal gains.
    """
    found = mean_over_runs([score.after - score.before for score in scores])
    lows = [score.gain_low for score in scores if score.gain_low is not None]
    highs = [score.gain_high for score in scores if score.gain_high is not None]
    if found.low is None or found.high is None or not len(lows) == len(highs) == len(scores):
        return Mean(found.value, None, None)
    return over_both(found.value, (found.low, found.high), (found.value - fmean(lows), fmean(highs) - found.value))


def over_both(value: float, over_seeds: tuple[float, float], over_tasks: tuple[float, float]) -> Mean:
    """Return a mean over seeds and tasks with its interval, for which variances add up.

    `over_seeds` are the ends of the interval over seeds, `over_tasks` the distances below and above of the ends of that
    over tasks. An end is as far from the mean as the root of the sum of the squares of both distances.
    """
    below, above = hypot(value - over_seeds[0], over_tasks[0]), hypot(over_seeds[1] - value, over_tasks[1])
    return Mean(value, value - below, value + above)


def _result(changes: Changes, scores: Sequence[Score | None]) -> SettingResult:
    scored = [score for score in scores if score is not None]
    metrics = {score.metric for score in scored}
    after = gain = None
    if len(metrics) == 1:
        (metric,) = metrics
        after = _cut(mean_over_runs([score.after for score in scored]), metric, 0.0)
        gain = _cut(gain_of(scored), metric, -1.0)
    return SettingResult(changes, len(scores), len(scored), " or ".join(sorted(metrics)), after, gain)


def _cut(mean: Mean, metric: str, lowest: float) -> Mean:
    """Return a mean with its ends cut to what is possible: a share goes from 0 to 1, its gain from -1 to 1."""
    if metric != "accuracy" or mean.low is None or mean.high is None:
        return mean  # a sweep does not know the range of the reward
    return Mean(mean.value, max(mean.low, lowest), min(mean.high, 1.0))


def _refused(what: str, fix: str) -> ConfigError:
    return ConfigError(what, where="--sweep", fix=fix)
