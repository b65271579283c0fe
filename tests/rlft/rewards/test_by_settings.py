"""Scores as a config says: several environments each score their own attempts."""

import pytest

from rlft.config import RewardConfig
from rlft.errors import TaskError
from rlft.rewards.scoring import score_rollouts
from rlft.types import Rewards, Rollouts
from rlft.types.storage import rewards_from_table, rewards_to_table
from tests.rlft.attempts import attempt
from tests.rlft.several import Sums, make_several, of

TASKS = {task.id: task for task in (of("sums", 1), of("words", 2), of("sums", 3))}
BOTH = RewardConfig(members={"sums": RewardConfig(weights={"right": 3.0}), "words": RewardConfig(full=0.5)})


def score(*said, settings=BOTH, environment=None):
    environment = environment or make_several()
    rows = (attempt(TASKS[task], text, environment) for task, text in said)
    return score_rollouts(Rollouts(tuple(rows)), TASKS, environment, settings)


def test_each_scores_its_own_by_its_own_settings():
    several = make_several()
    found = score(("words/2", "abcde"), ("sums/1", "2"), ("sums/3", "?"), ("words/2", "abc"), environment=several)
    # sums: weight 3 of the config, not the 2 of the class; words: five characters are the half that counts as full.
    assert [row.total for row in found] == [0.5, 3.0, -3.0, 0.3]
    assert [row.solved for row in found] == [True, True, False, False]
    assert [row.parts for row in found] == [
        {"words/right": 0.5},
        {"sums/right": 1.0},
        {"sums/right": -1.0},
        {"words/right": 0.3},
    ]
    assert [row.answer for row in found] == ["a", "2", "?", "a"]
    assert found.weights == {"sums/right": 3.0, "words/right": 1.0}
    # The total of sums lies in [-3, 3], that of words in [0, 1].
    assert found.ranges == {
        "rewards/sums/right": (-1.0, 1.0),
        "rewards/words/right": (0.0, 1.0),
        "reward": (-3.0, 3.0),
        "reward/sums": (-3.0, 3.0),
        "reward/words": (0.0, 1.0),
    }
    assert found.members == ("sums", "words")
    assert [found.member_of(row) for row in found] == ["words", "sums", "sums", "words"]
    assert {task for task in several.members["sums"].seen if "words" in task} == set()


def test_an_environment_without_attempts_is_left_out():
    found = score(("sums/1", "2"))
    assert found.weights == {"sums/right": 3.0}
    assert found.ranges["reward"] == (-3.0, 3.0)


def test_a_single_environment_is_scored_as_before():
    found = score(("sums/1", "2"), settings=RewardConfig(weights={"right": 3.0}), environment=Sums())
    assert found.members == ()
    assert [(row.total, row.parts, found.member_of(row)) for row in found] == [(3.0, {"right": 1.0}, "")]


def test_an_attempt_at_an_unknown_task_is_refused():
    with pytest.raises(TaskError, match="not among the tasks"):
        score_rollouts(Rollouts((attempt(of("sums", 99), "1", make_several()),)), TASKS, make_several(), BOTH)


def test_the_environments_are_stored_with_the_rewards():
    found = score(("words/2", "abcde"), ("sums/1", "2"))
    table = rewards_to_table(found)
    assert rewards_from_table(table) == found
    assert rewards_from_table(rewards_to_table(Rewards((), {}))).members == ()
