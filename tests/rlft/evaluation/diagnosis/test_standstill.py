import numpy as np
import pytest

from rlft.evaluation.diagnosis.history import History
from rlft.evaluation.diagnosis.learning import standing_still
from rlft.evaluation.diagnosis.table import diagnose
from tests.rlft.evaluation.diagnosis.test_diagnose import history, report


def curve(rewards, **more: object) -> History:
    """A run with these rewards, which are the shares solved, too; other metrics stay or are given for each round."""
    count = len(rewards)
    series = {
        name.replace("__", "/"): value if isinstance(value, list) else [value] * count for name, value in more.items()
    }
    return history(
        *(
            report(i, reward=each, accuracy=each, **{name: values[i] for name, values in series.items()})
            for i, each in enumerate(rewards)
        ),
        validations=[4, 36],
    )


def stands(level: float = 0.5, count: int = 36) -> list[float]:
    """A rise from 0.1 to a level within a third of the rounds, and then up and down by 0.01 about it."""
    third = count // 3
    rise = list(np.linspace(0.1, level, third))
    return rise + [level + 0.01 * (-1) ** i for i in range(count - third)]


def test_a_reward_that_rose_and_stands_still():
    found = diagnose(curve(stands(), kl_update=0.01, entropy=1.0))
    assert [each.cause for each in found] == ["standstill"]
    # Four of 36 rounds at the beginning: 0.1, 0.136, 0.173 and 0.209.
    assert "rose from 0.15 to 0.50 and has stood still for the last 18 of 36 rounds, with 50.0%" in found[0].what
    assert "1.0e-02 nats per token a round" in found[0].what


@pytest.mark.parametrize(
    ("more", "cause"),
    [
        ({"frac_reward_zero_std": 0.9}, "nothing left to compare"),
        ({"frac_reward_zero_std": 0.7}, "standstill"),
        ({"learning_rate": [1e-3] * 12 + [1e-4] * 24}, "learning rate has run out"),
        ({"learning_rate": [1e-3] * 12 + [3e-4] * 24}, "standstill"),
        ({"kl_update": 0.2}, "learning rate too high"),
        ({"entropy": [2.0] * 12 + [0.04] * 24}, "entropy collapse"),
        (
            {"rewards__contradiction_ratio": 0.4, "completions__duplicate_ratio": 0.5, "frac_reward_zero_std": 0.9},
            "a reward that contradicts itself",
        ),
    ],
)
def test_what_ends_a_rise(more, cause):
    assert [each.cause for each in diagnose(curve(stands(), **more))] == [cause]


def test_a_penalty_as_strong_as_the_reward_ends_a_rise():
    """Rewards differ by 0.4 within groups and have gained 0.34: in balance at 0.4 / beta, or at 0.16 / beta."""

    def cause(beta: float, scale: str = "group") -> str:
        run = curve(stands(), reward_std=0.4)
        found = diagnose(
            History(**{name: getattr(run, name) for name in History.__slots__} | {"beta": beta, "scale_rewards": scale})
        )
        return found[0].cause

    assert cause(0.6) == "held by the KL penalty"  # 0.34 of 0.67
    assert cause(0.5) == "standstill"  # of 0.8
    assert cause(0.25, "none") == "held by the KL penalty"  # of 0.64
    assert cause(0.2, "none") == "standstill"  # of 0.8
    assert cause(0.0) == "standstill"


def test_what_rises_still_or_is_solved_does_not_stand_still():
    assert diagnose(curve(list(np.linspace(0.1, 0.8, 36)))) == []
    assert diagnose(curve(stands(0.97))) == []
    assert diagnose(curve(stands()[:30])) == []  # 15 rounds at the end
    assert diagnose(curve(stands()[:31])) != []  # 16
    assert diagnose(curve(stands(0.12))) == []  # hardly risen


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.02, 0.05, 0.1])
@pytest.mark.parametrize("count", [32, 60])
def test_a_noisy_run_that_rises_steadily_or_never_is_seldom_said_to_stand_still(count, noise):
    random = np.random.default_rng(count)
    for start, end in ((0.1, 0.6), (0.4, 0.4)):
        runs = np.linspace(start, end, count) + random.normal(0, noise, (100, count))
        accused = sum(standing_still(curve(list(run))) is not None for run in runs)
        assert accused <= 5  # one in twenty
