"""Which runs a sweep has, what they are called, and what they come to over seeds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.errors import ConfigError
from rlft.evaluation.sweep import (
    Mean,
    Score,
    gain_of,
    mean_over_runs,
    of_settings,
    short_name,
    short_names,
    split_values,
    variations,
)


def test_every_combination_is_a_run_and_the_last_key_varies_fastest():
    assert variations(["training.learning_rate=1e-4,3e-4", "seed=0,1"]) == [
        {"training.learning_rate": "1e-4", "seed": "0"},
        {"training.learning_rate": "1e-4", "seed": "1"},
        {"training.learning_rate": "3e-4", "seed": "0"},
        {"training.learning_rate": "3e-4", "seed": "1"},
    ]


@pytest.mark.parametrize(
    ("sweeps", "said"),
    [
        (["seed"], "'seed' is no sweep"),
        (["seed="], "'seed=' is no sweep"),
        (["=1,2"], "'=1,2' is no sweep"),
        (["seed=0,,1"], "'seed=0,,1' is no sweep"),
        (["seed=0,1", "seed=2,3"], "seed is swept twice"),
        (["seed=0,1,0"], "seed has the value '0' twice"),
        (["seed=0"], r"these make 1 run\(s\)"),
        ([f"seed={','.join(map(str, range(101)))}"], r"these make 101 run\(s\)"),
    ],
)
def test_what_is_no_sweep_is_refused(sweeps, said):
    with pytest.raises(ConfigError, match=said) as refused:
        variations(sweeps)
    assert refused.value.where == "--sweep"
    assert refused.value.fix


def test_a_comma_within_brackets_or_quotes_belongs_to_the_value():
    assert split_values("[a, b],[c]") == ["[a, b]", "[c]"]
    assert split_values('{a: 1, b: [2, 3]},"x,y"') == ["{a: 1, b: [2, 3]}", '"x,y"']


@pytest.mark.slow
@given(st.lists(st.text(alphabet="ab01.-[]{}\"' ", max_size=8), min_size=1, max_size=5))
def test_joined_again_the_values_are_the_text(parts):
    text = ",".join(parts)
    assert ",".join(split_values(text)) == text


def test_a_short_name_has_the_ends_of_the_keys_and_no_sign_that_a_name_cannot_have():
    assert short_name({"training.learning_rate": "3e-4", "seed": "1"}) == "learning_rate=3e-4,seed=1"
    assert short_name({"a.path": "x/y", "b.path": "z"}) == "a.path=x_y,b.path=z"
    assert short_name({"key": "x" * 100}, most=10) == "key=xxxxxx"
    assert short_name({}) == ""


def test_a_short_name_ends_with_a_whole_setting_and_counts_what_it_leaves_out():
    changes = {"a.steps": "40", "b.batch_size": "16", "c.rate": "1e-3"}
    whole = "steps=40,batch_size=16,rate=1e-3"  # 8, 13 and 9 characters, and two commas
    assert short_name(changes, most=32) == whole
    assert short_name(changes, most=31) == "steps=40,batch_size=16,+1"
    assert short_name(changes, most=25) == "steps=40,batch_size=16,+1"
    assert short_name(changes, most=24) == "steps=40,+2"
    assert short_name(changes, most=24, unnamed=3) == "steps=40,+5"
    assert short_name({"path": "a,,,,b"}, most=8) == "path=a"
    assert short_name({}, unnamed=2) == "+2"


@pytest.mark.slow
def test_names_that_would_be_the_same_get_a_digest():
    prompts = [{"environment.kwargs.system_prompt": f"{'Think step by step. ' * 5}{end}"} for end in ("A", "B")]
    assert short_name(prompts[0]) == short_name(prompts[1])
    first, second = short_names(prompts)
    assert first != second
    assert first[:-9] == second[:-9]
    assert len(first) == len(second) == 60
    assert short_names([{"path": "a/b"}, {"path": "a b"}, {"path": "c"}])[2] == "path=c"
    assert len(set(short_names([{"path": "a/b"}, {"path": "a b"}]))) == 2


def test_the_interval_is_students():
    # 0.5, 0.6 and 0.7: mean 0.6, deviation 0.1; t of 2 degrees of freedom is 4.302653 at 97.5 %.
    mean = mean_over_runs([0.5, 0.6, 0.7])
    assert (mean.value, mean.low, mean.high) == pytest.approx((0.6, 0.6 - 0.2484138, 0.6 + 0.2484138), abs=1e-6)


@pytest.mark.parametrize("values", [[0.25], [0.0, 0.0, 0.0]])
def test_one_run_and_equal_ones_have_no_interval(values):
    assert mean_over_runs(values) == Mean(values[0], None, None)


def test_the_gain_has_the_chance_of_the_tasks_in_its_interval():
    # Gains of 0.1, 0.2 and 0.3 beside one start: over seeds 0.2 +- 0.2484138, as above. Over tasks 0.15 to either side,
    # 0.05 of which is for errors below: root of 0.2484138^2 + 0.2^2 = 0.3189191 below, of + 0.15^2 = 0.2901886 above.
    runs = [Score("reward", 0.4, 0.4 + gain, gain - 0.2, gain + 0.15) for gain in (0.1, 0.2, 0.3)]
    found = gain_of(runs)
    assert (found.value, found.low, found.high) == pytest.approx((0.2, 0.2 - 0.3189191, 0.2 + 0.2901886), abs=1e-6)
    for without in ([Score("reward", 0.4, 0.5), *runs], runs[:1]):  # one without an interval over tasks, and one run
        assert (gain_of(without).low, gain_of(without).high) == (None, None)


def test_seeds_that_agree_on_few_tasks_do_not_show_a_gain():
    # Over seeds alone the gain of 0.05, 0.06 and 0.07 would be 0.035 to 0.085: the start's luck on the tasks is shared.
    runs = [({"seed": str(n)}, Score("accuracy", 0.4, 0.45 + n / 100, n / 100 - 0.05, 0.15)) for n in range(3)]
    gain = of_settings(runs)[0].gain
    assert gain is not None
    assert gain.low is not None
    assert gain.low < 0 < gain.value


def test_ends_are_cut_to_what_a_share_can_be():
    # 0.9 and 1.0: 0.95 +- 12.7 * 0.05. A gain reaches from -1 to 1. A reward has ends that a sweep does not know.
    (share,) = of_settings([({}, Score("accuracy", 0.0, after, -1.0, 1.0)) for after in (0.9, 1.0)])
    assert share.after is not None
    assert (share.after.low, share.after.high) == (pytest.approx(0.3146898), 1.0)
    assert share.gain is not None
    assert (share.gain.low, share.gain.high) == (-1.0, 1.0)
    (reward,) = of_settings([({}, Score("reward", 0.0, after, -1.0, 1.0)) for after in (0.9, 1.0)])
    assert reward.after is not None
    assert reward.after.high == pytest.approx(1.5853102)


def test_runs_that_differ_in_their_seed_alone_are_one_setting():
    slow, fast = {"rate": "1", "seed": "0"}, {"rate": "2", "seed": "0"}
    found = of_settings(
        [
            (slow, Score("accuracy", 0.25, 0.5)),
            (fast, None),
            (slow | {"seed": "1"}, Score("accuracy", 0.25, 0.75)),
            (fast | {"seed": "1"}, Score("accuracy", 0.5, 0.25)),
        ]
    )
    assert [(each.changes, each.runs, each.scored) for each in found] == [({"rate": "1"}, 2, 2), ({"rate": "2"}, 2, 1)]
    assert found[0].after is not None
    assert found[0].after.value == 0.625  # of 0.5 and 0.75
    assert found[0].gain is not None
    assert found[0].gain.value == 0.375  # of 0.25 and 0.5
    assert found[1].after == Mean(0.25, None, None)


def test_runs_without_a_result_or_with_different_metrics_have_no_mean():
    (failed,) = of_settings([({"seed": "0"}, None), ({"seed": "1"}, None)])
    assert (failed.scored, failed.after, failed.gain, failed.metric) == (0, None, None, "")
    (mixed,) = of_settings([({"seed": "0"}, Score("accuracy", 0, 1)), ({"seed": "1"}, Score("reward", 0, 1))])
    assert (mixed.after, mixed.metric) == (None, "accuracy or reward")
