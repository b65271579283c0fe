"""What the benchmark of curricula reads off its curves."""

import pytest

from benchmarks.curriculum import at_rollouts, calculations, compare_arms, rollouts_to, summarise

CURVE = [(0, 0.1), (100, 0.3), (200, 0.2), (300, 0.5)]


@pytest.mark.parametrize(
    ("target", "needed"),
    [(0.1, 0.0), (0.2, 50.0), (0.3, 100.0), (0.35, 250.0), (0.5, 300.0), (0.6, None)],  # 0.35: half of 0.2 to 0.5
)
def test_when_an_accuracy_is_first_reached(target, needed):
    assert rollouts_to(CURVE, target) == pytest.approx(needed)


def test_the_accuracy_after_so_many_rollouts():
    # 50: half of 0.1 to 0.3; 250: half of 0.2 to 0.5
    assert [at_rollouts(CURVE, each) for each in (0, 50, 250, 10_000)] == pytest.approx([0.1, 0.2, 0.35, 0.5])


def test_arms_are_compared_with_uniform_at_half_and_four_fifths_of_its_gain():
    found = compare_arms(
        {"uniform": [(0, 0.1), (100, 0.5)], "fast": [(0, 0.1), (50, 0.4)], "slow": [(0, 0.1), (90, 0.2)]}
    )
    # half is 0.3 and four fifths is 0.42, which `fast` has not come to
    assert found["uniform"]["rollouts_to"] == pytest.approx({"0.5": 50, "0.8": 80})
    assert found["fast"]["ratio"] == {"0.5": pytest.approx(2 / 3), "0.8": None}
    assert found["slow"]["ratio"] == {"0.5": None, "0.8": None}
    assert found["slow"]["accuracy"] == 0.2
    more = {"without_variance": 0.5, "rounds": 3}
    seed = {"arms": {arm: row | more for arm, row in found.items()}}
    rows = summarise([seed, seed], ["fast"])
    assert rows["fast"]["ratio_0.5"] == pytest.approx({"mean": 2 / 3, "low": 2 / 3, "high": 2 / 3, "reached": 2})
    assert rows["fast"]["ratio_0.8"] == {"mean": None, "low": None, "high": None, "reached": 0}


def test_calculations_are_taken_out_of_solutions(tmp_path):
    (tmp_path / "train.jsonl").write_text('{"answer": "a <<48 + 24=72>>72 b <<2*3=6>>6 c <<$120-36=84>>84"}\n')
    assert calculations(tmp_path) == {"48+24": "72", "120-36": "84"}
