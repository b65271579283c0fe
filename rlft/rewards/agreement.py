"""How far a written reward, and the judge that it asks, agrees with people on pairs of attempts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from rlft.environments.contract.base import BaseEnv
from rlft.errors import RlftError
from rlft.evaluation.statistics import SHARE, mean_interval
from rlft.rewards.attempt import bounded_total
from rlft.rewards.judges.pairs import Pair, better_of, questions_of
from rlft.rewards.rubric import TOLERANCE, check_parts
from rlft.rewards.specification.grader import item_of
from rlft.rewards.specification.judge import Judge
from rlft.rewards.specification.model import Specification
from rlft.types import Interval, Message, Trajectory

_AT_ONCE = 32  # pairs, each with a few threads that wait for the judge


@dataclass(frozen=True, slots=True)
class Judged:
    """What was said of one pair: the totals of its attempts, each judged alone, and the winners, shown side by side.

    `winners` are 1 or 2 by the pair's own numbers: when output_1 was shown first, and when output_2 was. A measure that
    failed is `None`, `problem` says why, and `fix` what to do about it, where that is known. `again` are the totals of
    a second time, `None` if there was none.
    """

    pair: Pair
    totals: tuple[float, float] | None = None
    again: tuple[float, float] | None = None
    winners: tuple[int, int] | None = None
    problem: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement over pairs, as shares in [0, 1] with 95 % intervals over groups; `None` where nothing was measured.

    `alone` is how often the better attempt has the higher total, where equal totals count one half; `side_by_side` how
    often it wins when the judge sees both, as the mean of both orders, and `steady` how often both orders have the same
    winner. `first` is the share of all such answers that name the attempt shown first: one half without position bias.
    `repeats` is how often a total is the same when all is asked again. `longer` is how often the longer attempt is the
    better one: a judge must be better than that. `ties` counts pairs of equal totals, `failed` those that something
    could not be measured of.
    """

    pairs: int
    alone: Interval | None
    side_by_side: Interval | None
    steady: Interval | None
    first: Interval | None
    repeats: Interval | None
    longer: Interval
    ties: int
    failed: int

    @property
    def is_better_than_chance(self) -> bool:
        """Whether the whole interval of `alone` is above one half."""
        return self.alone is not None and self.alone.low > 0.5

    @property
    def is_worse_than_chance(self) -> bool:
        """Whether the whole interval of `alone` is below one half: the reward prefers what people do not."""
        return self.alone is not None and self.alone.high < 0.5

    @property
    def follows_length(self) -> bool:
        """Whether the longer attempts are as often the better ones, and that is told apart from chance."""
        if self.alone is None or self.longer.low <= 0.5 <= self.longer.high:
            return False
        return self.alone.low <= self.longer.mean <= self.alone.high


async def judge_pairs(
    environment: BaseEnv,
    judge: Judge | None,
    specification: Specification,
    pairs: Sequence[Pair],
    weights: Mapping[str, float],
    *,
    again: BaseEnv | None = None,
    repeated: int = 0,
) -> list[Judged]:
    """Score the attempts of all pairs by the environment's reward, and show the judge both in either order.

    `weights` override those of the criteria. The attempts of the first `repeated` pairs are scored once more by
    `again`, the same environment with a judge that remembers nothing. Without a judge, or a criterion of the type
    `judge`, nothing is shown side by side. Whatever fails is the problem of its pair.
    """
    given, some = {**environment.reward_weights(), **weights}, asyncio.Semaphore(_AT_ONCE)

    async def one(number: int, pair: Pair) -> Judged:
        async with some:
            try:
                totals = await _totals(environment, pair, given)
                more = await _totals(again, pair, given) if again is not None and number < repeated else None
                winners = None if judge is None else await _winners(judge, specification, pair)
            except Exception as error:  # whatever a grader or a judge raises
                return _failed(pair, error)
            return Judged(pair, totals, more, winners)

    return list(await asyncio.gather(*(one(number, pair) for number, pair in enumerate(pairs))))


def agreements(judged: Sequence[Judged]) -> dict[str, Agreement]:
    """Return {subset: agreement} in the order of the alphabet, and that of all pairs first, under an empty name."""
    subsets = sorted({each.pair.subset for each in judged} - {""})
    found = {"": agreement(judged)}
    for subset in subsets:
        found[subset] = agreement([each for each in judged if each.pair.subset == subset])
    return found


def agreement(judged: Sequence[Judged]) -> Agreement:
    """Return what came of pairs, of which there is at least one."""
    groups = {each.pair.id: each.pair.group or each.pair.id for each in judged}

    def share(values: Mapping[str, float]) -> Interval | None:
        return mean_interval(values, groups, SHARE) if values else None

    alone = {each.pair.id: _credit(*each.totals, each.pair.label) for each in judged if each.totals}
    shown = [each for each in judged if each.winners]
    longer = {
        each.pair.id: _credit(len(each.pair.output_1), len(each.pair.output_2), each.pair.label) for each in judged
    }
    return Agreement(
        pairs=len(judged),
        alone=share(alone),
        side_by_side=share({each.pair.id: fmean(w == each.pair.label for w in each.winners or ()) for each in shown}),
        steady=share({each.pair.id: float(len(set(each.winners or ())) == 1) for each in shown}),
        first=share({each.pair.id: _first(each.winners or (1, 2)) for each in shown}),
        repeats=share({each.pair.id: _same(each.totals, each.again) for each in judged if each.totals and each.again}),
        longer=mean_interval(longer, groups, SHARE),
        ties=sum(value == 0.5 for value in alone.values()),
        failed=sum(bool(each.problem) for each in judged),
    )


def _failed(pair: Pair, error: Exception) -> Judged:
    kind = type(error).__name__
    if isinstance(error, RlftError):
        return Judged(pair, problem=f"{kind}: {error.where}{': ' * bool(error.where)}{error.what}", fix=error.fix)
    cause = error.__cause__
    because = "" if cause is None or str(cause) in str(error) else f", because of {type(cause).__name__}: {cause}"
    return Judged(pair, problem=f"{kind}: {error}{because}")


async def _totals(environment: BaseEnv, pair: Pair, weights: Mapping[str, float]) -> tuple[float, float]:
    first, second = await asyncio.gather(*(_total(environment, pair, text, weights) for text in pair.outputs))
    return first, second


async def _total(environment: BaseEnv, pair: Pair, text: str, weights: Mapping[str, float]) -> float:
    task = pair.task()
    completion = Trajectory([Message(role="assistant", content=text)], task=task)
    return bounded_total(check_parts(await environment.compute_reward(completion, task.answer)), weights, environment)


async def _winners(judge: Judge, specification: Specification, pair: Pair) -> tuple[int, int] | None:
    if not (questions := questions_of(specification, item_of(pair.task()))):
        return None
    one, two = pair.outputs
    ahead, behind = await asyncio.gather(
        better_of(judge, pair.input, questions, one, two), better_of(judge, pair.input, questions, two, one)
    )
    return ahead, 3 - behind


def _credit(first: float, second: float, label: int) -> float:
    """Return 1 if the better one has more, 0 if it has less, and one half if both have the same."""
    if abs(first - second) <= TOLERANCE:
        return 0.5
    return float((first > second) == (label == 1))


def _first(winners: tuple[int, int]) -> float:
    """Return the share of the two answers that named what was shown first: output_1, and then output_2."""
    return fmean((winners[0] == 1, winners[1] == 2))


def _same(totals: tuple[float, float] | None, again: tuple[float, float] | None) -> float:
    pairs = zip(totals or (), again or (), strict=True)
    return fmean(abs(one - other) <= TOLERANCE for one, other in pairs)
