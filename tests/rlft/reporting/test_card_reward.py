"""What a reward pays, in words."""

from rlft.config import RewardConfig
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.marks import metric, reward
from rlft.environments.contract.several import Several
from rlft.reporting.model_card import reward_by, reward_in_words


class Marked(BaseEnv):
    """Capitals of countries.

    More about it.
    """

    @reward(weight=2.0, minimum=0.0)
    def right(self, text):
        """The answer is the
        capital. api_key="hf_abcdefghijklmnopqrstuvwxyz012345"
        """
        return 1.0

    @metric
    def words(self, text):
        return 3.0

    @reward(weight=-0.5)
    def rude(self, text):
        return 0.0


class Whole(BaseEnv):
    async def compute_reward(self, completion, ground_truth):
        """Pay what is right."""
        return {"exact": 1.0}


def test_parts_of_marked_methods():
    said = reward_in_words(Marked(), ["right", "words", "rude"], {"rude": -1.0}, None)
    assert said == [
        "Capitals of countries.",
        'right: paid with weight 2, 0 to 1. The answer is the capital. api_key="***"',
        "words: a metric, which is not paid.",
        "rude: a penalty of weight -1.",
        "The reward of an attempt is the sum of its parts times their weights; it counts as solved from the total of "
        "an attempt that is full in every paid part.",
    ]


def test_a_reward_of_one_method():
    said = reward_in_words(Whole(), ["exact"], {}, 0.9)
    assert said[0] == "Pay what is right."
    assert said[1] == "exact: paid with weight 1, at most 1."
    assert said[-1].endswith("it counts as solved from 0.9.")


def test_the_rewards_of_several_environments_are_told_one_by_one():
    settings = RewardConfig(members={"facts": RewardConfig(weights={"right": 5.0}), "all": RewardConfig(full=0.5)})
    several = Several({"facts": Marked(), "all": Whole()})
    said = reward_by(settings, several, ["facts/right", "all/exact"])
    assert said[0] == "In facts: Capitals of countries."
    assert said[1].startswith("In facts: right: paid with weight 5, 0 to 1. The answer")
    assert said[3:5] == ["In all: Pay what is right.", "In all: exact: paid with weight 1, at most 1."]
    assert said[-1].endswith("it counts as solved from 0.5.")
    assert reward_by(settings.of_member("all"), Whole(), ["exact"]) == reward_in_words(Whole(), ["exact"], {}, 0.5)
