"""`rlft reward agreement`: how far a written reward, and its judge, agrees with people, before it is trusted."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from cli.guard import guarded
from cli.options import ConfigPath, Overrides, ResultAsJson, Verbose
from cli.reward.opened import open_reward, specification_in
from rlft.config.file import load_config
from rlft.errors import RewardError
from rlft.reporting.terminal import console, styled

_MOST_PROBLEMS = 3  # that are told in full

if TYPE_CHECKING:
    from rlft.rewards.agreement import Agreement, Judged
    from rlft.types import Interval


def agreement(
    config: ConfigPath,
    pairs: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="JSON Lines with id, input, output_1, output_2, label (1 or 2), subset, group."
        ),
    ],
    limit: Annotated[int | None, typer.Option(min=1, help="Take the first so many pairs only.")] = None,
    repeated: Annotated[
        int, typer.Option("--again", min=0, help="Score so many pairs twice, to see whether scores repeat.")
    ] = 20,
    overrides: Overrides = None,
    as_json: ResultAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Measure on pairs of attempts whether the reward prefers what people prefer.

    Each attempt is scored alone, as in training; a judge is also shown both, in either order. The exit code is 2 if
    nothing could be measured, and 0 whatever the agreement.
    """
    with guarded(verbose, None):
        settings = load_config(config, overrides)
        specification = specification_in(settings)
        from rlft.environments.specified import ask_anew, helpers_of
        from rlft.rewards.agreement import agreements, judge_pairs
        from rlft.rewards.judges.pairs import read_pairs
        from rlft.rewards.judges.servers import judging

        given = read_pairs(pairs)[:limit]
        environment, again = open_reward(settings), open_reward(settings)
        ask_anew(again)
        judge, weights = helpers_of(environment).judge, settings.reward.weights
        work = judge_pairs(environment, judge, specification, given, weights, again=again, repeated=repeated)
        with judging(environment):
            judged = asyncio.run(work)
        found = agreements(judged)
        if all(each.problem for each in judged):
            which = "the pair could not" if len(judged) == 1 else f"none of {len(judged)} pairs could"
            raise RewardError(
                f"{which} be judged: {_problems(judged)}",
                where=f"--pairs {pairs}",
                fix=_fix(judged) or "`rlft reward run` shows what happens with one attempt",
            )
        if as_json:
            content = {name or "all": asdict(each) for name, each in found.items()}
            problems = {each.pair.id: each.problem for each in judged if each.problem}
            console.write_json({"agreement": content, "problems": problems})
            return
        _show(found, judged)


def _show(found: dict[str, Agreement], judged: list[Judged]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("pairs of", "number", "alone", "side by side", "same in both orders", "first", "the longer one"):
        table.add_column(heading, overflow="fold", justify="left" if heading == "pairs of" else "right")
    for name, each in found.items():
        shares = (each.alone, each.side_by_side, each.steady, each.first, each.longer)
        table.add_row(styled(name or "all"), str(each.pairs), *map(_share, shares))
    console.print(table)
    for sentence in sentences(found):
        console.print(sentence)
    if failed := found[""].failed:
        pairs = "1 pair is" if failed == 1 else f"{failed} pairs are"
        console.print(styled(f"{pairs} left out, as something failed: {_problems(judged)}", "red"))


def sentences(found: dict[str, Agreement]) -> list[str]:
    """Return in sentences what the numbers mean: all pairs are under the empty name."""
    total = found[""]
    said = list[str]()
    if total.alone is not None:
        chance = "" if total.is_better_than_chance else ", which chance would do"
        better = ", less than chance would: it prefers the worse attempt" if total.is_worse_than_chance else chance
        said.append(
            f"The reward pays the better attempt more in {_share(total.alone)} of the pairs{better}. "
            f"It pays both the same in {total.ties}, which count one half."
        )
        if total.follows_length:
            said.append(
                f"So would one that pays the longer attempt more, with {total.longer.mean:.0%}: see whether it looks "
                "at the length."
            )
    worse = [name for name, each in found.items() if name and each.is_worse_than_chance]
    if worse and not total.is_worse_than_chance:
        said.append(f"It prefers the worse attempt on {', '.join(worse)}.")
    weak = [name for name, each in found.items() if name and not each.is_better_than_chance]
    if weak and total.is_better_than_chance:
        said.append(f"It is not seen to be better than chance on {', '.join(weak)}.")
    if total.steady is not None and total.first is not None:
        said.append(
            f"Shown both, the judge names the same one in either order for {_share(total.steady)} of the pairs, and "
            f"the first one in {_share(total.first)} of its answers (50% without a bias)."
        )
    if total.repeats is not None:
        said.append(f"Asked again, it gives the same score in {_share(total.repeats)} of the attempts.")
    return said


def _share(interval: Interval | None) -> str:
    """Return a share in per cent with its interval."""
    if interval is None:
        return "-"
    return f"{interval.mean:.0%} ({interval.low:.0%} to {interval.high:.0%})"


def _counted(judged: list[Judged]) -> Counter[str]:
    return Counter(each.problem for each in judged if each.problem)


def _problems(judged: list[Judged]) -> str:
    """Return what failed and how often: several causes are told apart, the most frequent ones first."""
    found = _counted(judged)
    told = [f"{what} ({'once' if n == 1 else f'{n} times'})" for what, n in found.most_common(_MOST_PROBLEMS)]
    left = len(found) - len(told)
    more = "1 other problem" if left == 1 else f"{left} other problems"
    return "; ".join([*told, more] if left else told)


def _fix(judged: list[Judged]) -> str:
    """Return what to do about the most frequent problem for which that is known, else nothing."""
    fixes = {each.problem: each.fix for each in judged if each.fix}
    return next((fixes[problem] for problem, _ in _counted(judged).most_common() if problem in fixes), "")
