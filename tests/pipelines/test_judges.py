"""pipelines.judges: before anything is scored, judges are asked whether they score as they did."""

from __future__ import annotations

import logging

import pytest

from pipelines.judges import meet_judges, meet_judges_of_suite
from pipelines.showing import unshown
from rlft.config import Config, SuiteConfig
from rlft.errors import RewardError
from tests.rlft.engines.chat_servers import ChatServer
from tests.rlft.rewards.judges.judged import KIND, says

CASES = [{"attempt": "Lima", "item": {"answer": "Lima", "prompt": "Peru?"}, "at_least": 0, "reason": "It is right."}]
RULER = {
    "right": {"says": "It is right.", "grader": {"type": "exact"}, "essential": True},
    "better": {"says": "It is better.", "grader": {"type": "ruler"}, "weight": 0.2},
}


@pytest.fixture(autouse=True)
def _a_home(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("RLFT_JUDGES", str(tmp_path))
    caplog.set_level(logging.WARNING)


def reward_of(server, criteria=KIND, cases=CASES, **more):
    spec = {"criteria": criteria, "cases": cases, "judge": {"endpoint": server.url, "model": "small", "attempts": 1}}
    return {"spec": spec, **more}


def config_of(reward, **more):
    named = {"name": "judged", "tasks": {"source": "jsonl", "path": "rows.jsonl"}, "policy": {"model": "any"}}
    return Config.model_validate({**named, "reward": reward, **more})


def test_a_run_goes_on_with_the_judge_that_it_knows_and_not_with_one_that_has_changed(caplog):
    said = {"score": 0.75}
    with ChatServer(lambda body, number: says(**said)) as server:
        config = config_of(reward_of(server))
        meet_judges(config, unshown)
        meet_judges(config, unshown)
        assert len(server.bodies) == 5 + 1
        said["score"] = 0.25
        with pytest.raises(RewardError, match=r"case 1 \(It is right\.\), criterion 'kind' was 0\.75, .* and is 0\.25"):
            meet_judges(config, unshown)
    assert caplog.text == ""


def test_each_of_several_environments_has_its_judge(caplog):
    with ChatServer(lambda body, number: says(score=1)) as one, ChatServer(lambda body, number: says(score=0)) as other:
        tasks = {"source": "jsonl", "path": "rows.jsonl"}
        members = {
            "one": {"tasks": tasks, "reward": reward_of(one)},
            "other": {"tasks": tasks, "reward": reward_of(other, cases=[])},
        }
        config = Config.model_validate({"name": "judged", "policy": {"model": "any"}, "environments": members})
        meet_judges(config, unshown)
        assert (len(one.bodies), len(other.bodies)) == (5, 0)
    assert "nobody would notice if the judge small changed: write `cases`" in caplog.text


def test_a_process_without_a_home_says_that_it_cannot_tell(monkeypatch, caplog):
    monkeypatch.delenv("RLFT_JUDGES")
    with ChatServer(lambda body, number: says(score=1)) as server:
        meet_judges(config_of(reward_of(server)), unshown)
        assert server.bodies == []
    assert "this process has no home" in caplog.text


@pytest.mark.parametrize(
    ("reward", "metric", "is_warned"),
    [
        ({}, "accuracy", True),
        ({"full": 1.0}, "accuracy", False),
        ({"full": 1.0}, "reward", True),
        ({"weights": {"better": 0.0}}, "reward", False),
    ],
)
def test_policies_that_would_be_chosen_by_comparing_their_own_attempts_are_told(caplog, reward, metric, is_warned):
    with ChatServer(lambda body, number: '{"why": "so", "scores": [1]}') as server:
        given = reward_of(server, RULER, **reward)
        meet_judges(config_of(given, evaluation={"metric": metric}), unshown)
    assert ("its mean says nothing about the policy" in caplog.text) == is_warned
    assert ("Choose accuracy" in caplog.text) == (is_warned and metric == "reward")
    assert ("reward.full to what the other criteria earn" in caplog.text) == is_warned


def test_a_suite_meets_each_judge_once_and_stops_for_one_that_has_changed():
    scores, noted = {"one": 0.75, "other": 0.5}, list[tuple]()
    with (
        ChatServer(lambda body, number: says(score=scores["one"])) as one,
        ChatServer(lambda body, number: says(score=scores["other"])) as other,
    ):
        tasks = {"source": "jsonl", "path": "rows.jsonl"}
        plain = {"name": "rlft.environments.specified:Plain"}
        sampled = [{"name": "greedy"}, {"name": "hot", "temperature": 1.0}]
        suite = SuiteConfig.model_validate(
            {
                "name": "told",
                "scenarios": {
                    "one": {"tasks": tasks, "environment": plain, "reward": reward_of(one), "sampling": sampled},
                    "same": {"tasks": tasks, "environment": plain, "reward": reward_of(one)},
                    "other": {"tasks": tasks, "environment": plain, "reward": reward_of(other)},
                },
            }
        )
        meet_judges_of_suite(suite, unshown, lambda judging, said: noted.append((judging.calls, len(said))))
        assert (len(one.bodies), len(other.bodies)) == (5, 5)
        assert noted == [(5, 1), (10, 2)]  # sums, in their order
        meet_judges_of_suite(suite, unshown)
        assert (len(one.bodies), len(other.bodies)) == (6, 6)
        scores["other"] = 0.9
        with pytest.raises(RewardError, match=r"was 0\.5, .* and is 0\.9"):
            meet_judges_of_suite(suite, unshown)
    assert (len(one.bodies), len(other.bodies)) == (7, 9)


def test_what_was_said_is_noted_also_of_a_judge_that_has_changed():
    said, noted = {"score": 0.75}, list[dict]()
    with ChatServer(lambda body, number: says(**said)) as server:
        config = config_of(reward_of(server))
        meet_judges(config, unshown)
        said["score"] = 0.25
        with pytest.raises(RewardError):
            meet_judges(config, unshown, lambda judging, said: noted.extend(said))
    [one] = noted
    assert (one["environment"], one["has_changed"], one["now"]) == ("", True, (0.25, 0.25, 0.25))
