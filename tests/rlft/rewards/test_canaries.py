"""A judge that has changed under its name is noticed, one that only varies is not, and a person can accept it."""

from __future__ import annotations

import json

import pytest

from rlft.engines import server_requests
from rlft.environments.contract.several import specification_of
from rlft.environments.specified import helpers_of
from rlft.errors import RewardError
from rlft.rewards.canaries import REPEATS, check_unchanged, meet_canaries
from tests.rlft.engines.chat_servers import ChatServer, completion
from tests.rlft.rewards.judges.judged import KIND, judged_by, says

CASES = [
    {"attempt": "Lima, dear.", "item": {"prompt": "Peru?"}, "at_least": 0.5, "reason": "It is kind."},
    {"attempt": "Look it up.", "item": {"prompt": "Peru?"}, "at_most": 0.5, "reason": "It is not."},
    {"attempt": "Lima", "task": "t", "at_most": 1, "reason": "Its task is not at hand."},
]


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(server_requests, "_FIRST_WAIT", 0.001)


def meet(server, folder, *, criteria=KIND, cases=CASES, **settings):
    """What a judge says of its canaries, and what that took; raises where it has changed."""
    environment = judged_by(
        server, {"criteria": criteria, "cases": cases}, prices={"input": 1, "output": 1}, **settings
    )
    specification = specification_of(environment)
    met, judging = meet_canaries(specification, helpers_of(environment), folder)
    check_unchanged(met, specification.judge)
    return met, judging


def of(kind, other):
    """A judge that gives these scores to the two canaries, one after the other, over and over."""
    asked = {"Lima, dear.": [], "Look it up.": []}

    def answer(body, number):
        text = next(text for text in asked if text in body["messages"][-1]["content"])
        scores = kind if text == "Lima, dear." else other
        asked[text].append(number)
        score = scores[(len(asked[text]) - 1) % len(scores)]
        return completion(says(score=score), usage={"prompt_tokens": 10, "completion_tokens": 2})

    return answer


def test_at_first_each_canary_is_measured_and_later_asked_about_once(tmp_path):
    with ChatServer(of([0.75], [0.25])) as server:
        met, judging = meet(server, tmp_path)
        assert [(each.canary.case, each.canary.criterion, each.was, each.now) for each in met] == [
            (1, "kind", (0.75,) * REPEATS, ()),
            (2, "kind", (0.25,) * REPEATS, ()),
        ]
        assert (judging.calls, judging.cached, judging.prompt_tokens) == (2 * REPEATS, 0, 20 * REPEATS)
        again, judging = meet(server, tmp_path)
        assert [each.now for each in again] == [(0.75,), (0.25,)]
        assert [each.since for each in again] == [each.since for each in met]
        assert judging.calls == 2
    stored = sorted(json.loads(file.read_text())["case"] for file in tmp_path.glob("canaries/*.json"))
    assert stored == [1, 2]


def test_a_judge_that_has_changed_is_named_with_what_it_was_and_is(tmp_path):
    with ChatServer(of([0.75], [0.25])) as server:
        meet(server, tmp_path)
        server._answer = of([0.75], [0.5])
        with pytest.raises(RewardError) as caught:
            meet(server, tmp_path)
    said = str(caught.value)
    assert "case 2 (It is not.), criterion 'kind' was 0.25, between 0.25 and 0.25 in 5 answers, and is 0.5" in said
    assert "case 1" not in said
    assert "set judge.version" in said


def test_what_repeating_explains_is_no_change(tmp_path):
    with ChatServer(of([0.5, 0.6, 0.55, 0.6, 0.5], [0.25])) as server:
        meet(server, tmp_path)
        server._answer = of([0.7], [0.25])  # as far above 0.6 as that is above 0.5
        assert meet(server, tmp_path)[0][0].now == (0.7,)
        server._answer = of([0.4], [0.25])
        assert meet(server, tmp_path)[0][0].now == (0.4,)
        server._answer = of([0.71], [0.25])
        with pytest.raises(RewardError, match=r"case 1 .* between 0\.5 and 0\.6 in 5 answers, and is 0\.71"):
            meet(server, tmp_path)


def test_a_single_odd_answer_is_asked_again_before_anything_is_said(tmp_path):
    with ChatServer(of([0.75], [0.25])) as server:
        meet(server, tmp_path)
        server._answer = of([0.0, 0.75, 0.75], [0.25])
        [first, second], judging = meet(server, tmp_path)
    assert (first.now, second.now, judging.calls) == ((0.0, 0.75, 0.75), (0.25,), 4)


def test_another_version_is_another_judge(tmp_path):
    with ChatServer(of([0.75], [0.25])) as server:
        meet(server, tmp_path)
        server._answer = of([0.1], [0.1])
        met, _ = meet(server, tmp_path, version="of November")
        assert [each.was for each in met] == [(0.1,) * REPEATS] * 2
        with pytest.raises(RewardError, match="does not score as it did"):
            meet(server, tmp_path)


def test_without_an_answer_nothing_begins(tmp_path):
    with (
        ChatServer(lambda body, number: 503) as server,
        pytest.raises(RewardError, match=r"case 1 .* has no score, .*the judge did not answer"),
    ):
        meet(server, tmp_path)
    assert list(tmp_path.rglob("*.json")) == []


@pytest.mark.parametrize("damage", ["", "{}", '{"scores": [], "since": "x"}', '{"scores": ["a"], "since": "x"}'])
def test_what_was_said_at_first_and_cannot_be_read_is_told(tmp_path, damage):
    with ChatServer(of([0.75], [0.25])) as server:
        meet(server, tmp_path)
        for file in tmp_path.glob("canaries/*.json"):
            file.write_text(damage)
        with pytest.raises(RewardError, match="cannot be read"):
            meet(server, tmp_path)


def test_only_what_a_judge_decides_where_it_applies_is_a_canary(tmp_path):
    right = {"right": {"says": "r", "grader": {"type": "exact"}}}
    some = {"some": {**KIND["kind"], "applies": {"when": "{{item.prompt}}", "any_of": ["Chile?"]}}}
    with ChatServer(of([0.75], [0.25])) as server:
        met, _ = meet(server, tmp_path, criteria={**right, **some, **KIND})
    assert [each.canary.criterion for each in met] == ["kind", "kind"]
