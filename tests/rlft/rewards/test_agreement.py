"""How far a reward agrees with people: by value, and on real pairs with judges that fall for known traps."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from rlft.config.environment import PLAIN
from rlft.config.section import SPECIFICATION
from rlft.engines import server_requests
from rlft.environments.contract.loading import load_environment
from rlft.environments.contract.several import specification_of
from rlft.environments.specified import helpers_of
from rlft.evaluation.statistics import SHARE, mean_interval
from rlft.rewards.agreement import Judged, _failed, agreement, agreements, judge_pairs
from rlft.rewards.judges.pairs import Pair, read_pairs
from tests.rlft.engines.chat_servers import ChatServer

QUESTION = "Does it follow the instruction {{item.input}}?"
GOOD = {"good": {"says": "It does what was asked.", "grader": {"type": "judge", "question": QUESTION}}}


def pair(number, label, one="x", two="y", **more):
    return Pair.model_validate(
        {"id": str(number), "input": "?", "output_1": one, "output_2": two, "label": label, **more}
    )


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(server_requests, "_FIRST_WAIT", 0.001)
    monkeypatch.setattr(server_requests, "_LONGEST_WAIT", 0.01)


def judged_by(answer, pairs, *, repeated=0):
    """What comes of pairs when a server answers as `answer(attempts, number)` does: the texts that it is shown."""

    def reply(body, number):
        shown = re.findall(r"BEGIN (\S+)( \d+|)\n(.*?)\nEND \1\2", body["messages"][-1]["content"], re.DOTALL)
        return json.dumps({"why": "so", **answer([text for *_, text in shown], number)})

    with ChatServer(reply) as server:
        spec = {"criteria": GOOD, "judge": {"endpoint": server.url, "model": "small", "attempts": 2}}
        environment, again = (load_environment(PLAIN, {SPECIFICATION: json.dumps(spec)}) for _ in range(2))
        judge, specification = helpers_of(environment).judge, specification_of(environment)
        assert specification is not None
        work = judge_pairs(environment, judge, specification, pairs, {}, again=again, repeated=repeated)
        return asyncio.run(work), len(server.bodies)


def test_shares_by_value():
    judged = [
        Judged(pair(1, 1, "xx", "y"), (0.9, 0.1), (0.9, 0.1), (1, 1)),  # right, steady; it repeats
        Judged(pair(2, 2, "xx", "y"), (0.5, 0.5), (0.5, 0.4), (1, 2)),  # a tie; always the first; half repeats
        Judged(pair(3, 2, "x", "yy"), (0.7, 0.2), None, (2, 1)),  # wrong; always the second
        Judged(pair(4, 2), problem="RewardError: away"),
    ]
    found = agreement(judged)
    assert found.alone is not None
    assert (found.alone.mean, found.alone.count) == (0.5, 3)  # (1 + 0.5 + 0) / 3
    assert found.alone == mean_interval({"1": 1.0, "2": 0.5, "3": 0.0}, {}, SHARE)
    assert found.side_by_side is not None
    assert found.side_by_side.mean == pytest.approx(2 / 3)  # 1, one half, one half
    assert found.steady is not None
    assert found.steady.mean == pytest.approx(1 / 3)
    assert found.first is not None
    assert found.first.mean == 0.5  # one half, 1, 0
    assert found.repeats is not None
    assert found.repeats.mean == 0.75  # 1, one half
    assert found.longer.mean == pytest.approx((1 + 0 + 1 + 0.5) / 4)
    assert (found.pairs, found.ties, found.failed) == (4, 1, 1)
    assert not found.is_better_than_chance


def test_pairs_of_one_group_are_not_independent():
    right = [Judged(pair(n, 1, group="g"), (1.0, 0.0)) for n in range(40)]
    apart = [Judged(pair(n, 1), (1.0, 0.0)) for n in range(40)]
    assert not agreement(right).is_better_than_chance  # one group tells nothing
    assert agreement(apart).is_better_than_chance
    assert agreement(apart).side_by_side is None


def test_a_reward_that_prefers_the_worse_attempt_is_told_apart_from_chance():
    # All 40 pairs are paid the wrong way round, and the longer attempt is the worse one in each of them.
    wrong = agreement([Judged(pair(n, 1, "x", "yy"), (0.0, 1.0)) for n in range(40)])
    chance = agreement([Judged(pair(n, 1, "x", "yy"), (n % 2, 0.5)) for n in range(40)])
    right = agreement([Judged(pair(n, 1, "x", "yy"), (1.0, 0.0)) for n in range(40)])
    assert [each.is_worse_than_chance for each in (wrong, chance, right)] == [True, False, False]
    assert [each.follows_length for each in (wrong, chance, right)] == [True, False, False]
    # Pairs of the same length: the longer one is the better one by half, as of any that does as chance would.
    even = agreement([Judged(pair(n, 1), (n % 2, 0.5)) for n in range(40)])
    assert not even.follows_length


def test_subsets_are_told_apart():
    judged = [Judged(pair(1, 1, subset="b"), (1.0, 0.0)), Judged(pair(2, 1, subset="a"), (0.0, 1.0))]
    found = agreements(judged)
    assert list(found) == ["", "a", "b"]
    assert [each.alone and each.alone.mean for each in found.values()] == [0.5, 0.0, 1.0]


def test_a_judge_is_asked_about_each_attempt_alone_and_both_in_either_order():
    def answer(texts, number):
        return {"score": len(texts[0]) / 10} if len(texts) == 1 else {"label": "1"}

    [found], asked = judged_by(answer, [pair(1, 2, "short", "much")], repeated=1)
    assert found.totals == (0.5, 0.4)
    assert found.again == (0.5, 0.4)
    assert found.winners == (1, 2)  # whatever is shown first
    assert asked == 6  # two alone, two orders, and two alone by a judge that remembers nothing


def test_what_fails_is_the_problem_of_its_pair():
    def answer(texts, number):
        return {"score": 2.0 if "bad" in texts else 1.0} if len(texts) == 1 else {"label": "1"}

    wrong, right = judged_by(answer, [pair(1, 1, "bad"), pair(2, 1)])[0]
    assert wrong.totals is None
    assert "RewardError: the judge gave 2.0" in wrong.problem
    assert "what to do" not in wrong.problem
    assert right.problem == ""


def test_what_has_failed_is_told_with_its_cause_once():
    error = RuntimeError("the scorer failed")
    error.__cause__ = KeyError("colour")
    assert _failed(pair(1, 1), error).problem == "RuntimeError: the scorer failed, because of KeyError: 'colour'"
    error = RuntimeError("the scorer failed: no colour")
    error.__cause__ = ValueError("no colour")
    assert _failed(pair(1, 1), error).problem == "RuntimeError: the scorer failed: no colour"


def test_a_judge_that_falls_for_length_is_seen_on_real_pairs(shared_data):
    pairs = read_pairs(shared_data / "llmbar" / "pairs.jsonl")

    def longest(texts, number):
        if len(texts) == 1:
            return {"score": len(texts[0]) / 20_000}
        return {"label": str(1 + (len(texts[1]) > len(texts[0])))}

    # As the data's own page says: right on 90 of 332, and on 43 of 81 natural ones; equal lengths count one half here.
    whole = agreements([Judged(each) for each in pairs])
    for subset, right, count in (("", 90, 332), ("Natural", 43, 81)):
        equal = sum(len(each.output_1) == len(each.output_2) for each in pairs if subset in ("", each.subset))
        assert (whole[subset].pairs, whole[subset].longer.mean * count) == (count, pytest.approx(right + equal / 2))
    judged, _ = judged_by(longest, pairs[::4])
    found = agreements(judged)[""]
    assert (found.pairs, found.failed) == (83, 0)
    assert found.alone is not None
    assert found.alone == found.longer
    assert found.steady is not None
    assert found.steady.mean * 83 == pytest.approx(83 - found.ties)  # at a tie the first one wins
