"""The variations of a config that a sweep runs, and what their results come to over seeds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean, stdev

from rlft.errors import ConfigError

SEED = "seed"
MOST_RUNS = 100
Changes = dict[str, str]
"""Settings by their keys, each with a value as `--set` takes it."""


@dataclass(frozen=True, slots=True)
class Score:
    """The mean score on `test` of one run, `before` and `after` its training, in its `metric`."""

    metric: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over runs; `low` and `high` are the ends of its 95 % interval, `None` for one run or equal ones."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class SettingResult:
    """What the runs of one setting came to: those that differ in nothing but their seed.

    `changes` are the swept settings but for the seed, and `runs` counts its runs, of which `scored` have a result.
    `after` and `gain` (after minus before) are `None` if none has, or if they have different metrics.
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


def short_name(changes: Mapping[str, str], most: int = 60) -> str:
    """Return what differs as a part of a name, such as `learning_rate=3e-4,seed=1`; cut off at so many characters.

    Of a key only the last part stands there, unless two keys end in the same. Signs that are no good in a name are
    replaced by `_`.
    """
    ends = Counter(key.rsplit(".", 1)[-1] for key in changes)
    named = {key: end if ends[end := key.rsplit(".", 1)[-1]] == 1 else key for key in changes}
    joined = ",".join(f"{named[key]}={value}" for key, value in changes.items())
    return re.sub(r"[^\w.,=+-]", "_", joined, flags=re.ASCII)[:most]


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
    from scipy import stats  # costs half a second, and commands that only show help need none of it

    mean, width = fmean(values), stats.t.ppf(0.975, len(values) - 1) * stdev(values) / len(values) ** 0.5
    return Mean(mean, float(mean - width), float(mean + width))


def _result(changes: Changes, scores: Sequence[Score | None]) -> SettingResult:
    scored = [score for score in scores if score is not None]
    metrics = {score.metric for score in scored}
    after = gain = None
    if len(metrics) == 1:
        after = mean_over_runs([score.after for score in scored])
        gain = mean_over_runs([score.after - score.before for score in scored])
    return SettingResult(changes, len(scores), len(scored), " or ".join(sorted(metrics)), after, gain)


def _refused(what: str, fix: str) -> ConfigError:
    return ConfigError(what, where="--sweep", fix=fix)
