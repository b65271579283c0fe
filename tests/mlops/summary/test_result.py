import pytest

from mlops.summary.result import best_control, cut_short, description, result_metrics
from mlops.summary.summary import Baseline, Difference, JudgeCost, Ledger, Promotion, Seconds, Summary
from mlops.summary.verdict import judges_effort
from rlft.types import Interval


def minus(before, mean):
    change = {"mean": mean, "ci_low": mean - 0.01, "ci_high": mean + 0.02}
    return Difference(metric="accuracy", before=before, after=before + mean, tasks=500, **change)


IMPROVED = Summary(
    status="improved",
    difference=minus(0.25, 0.5),
    difference_controls={"sft": minus(0.5, 0.25), "constant": minus(0.125, 0.625), "few_shot": None},
    seconds=Seconds(total=1800.0),
    ledger=Ledger(sampled=640, trained=600, filtered=40),
    rounds=10,
)


def test_the_result_comes_first_with_its_intervals():
    found = result_metrics(IMPROVED, gpus=4, trained=Interval(0.75, 0.7, 0.8, 100), tokens=12800)
    assert found == pytest.approx(
        {
            "0_result/after": 0.75,
            "0_result/after_low": 0.7,
            "0_result/after_high": 0.8,
            "0_result/before": 0.25,
            "0_result/gain": 0.5,
            "0_result/gain_low": 0.49,
            "0_result/gain_high": 0.52,
            "0_result/over_control": 0.25,  # over sft
            "0_result/over_control_low": 0.24,
            "0_result/over_control_high": 0.27,
            "0_result/over_constant": 0.625,
            "0_result/over_constant_low": 0.615,
            "0_result/over_constant_high": 0.645,
            "0_result/used/seconds": 1800,
            "0_result/used/gpu_hours": 2,  # 4 GPUs for half an hour
            "0_result/used/rollouts": 640,
            "0_result/used/tokens": 12800,
        }
    )
    others = ["accuracy", "Accuracy", "clip_ratio/low", "_private", "eval/final/test/accuracy"]
    assert sorted([*others, *found])[: len(found)] == sorted(found)


def test_bounds_are_those_on_which_the_verdict_rests_and_a_score_lies_within_its_own():
    change = minus(0.25, 0.5).model_copy(update={"errors": 8, "ci_low_errors": -0.01, "ci_high_errors": 0.6})
    unsure = IMPROVED.model_copy(update={"status": "not_improved", "difference": change})
    # The start has a score for fewer tasks, on which the trained model has 0.75; on all of its own it has 0.5.
    found = result_metrics(unsure, gpus=0, trained=Interval(0.5, 0.4, 0.6, 100))
    ends = [found[f"0_result/{name}"] for name in ("after", "after_low", "after_high", "gain_low", "gain_high")]
    assert ends == [0.5, 0.4, 0.6, -0.01, 0.6]


def test_a_run_that_trained_nothing_says_what_it_took_and_what_it_measured():
    baseline = Baseline(verdict="too_hard", advice="Take easier tasks.", frac_tasks_with_variance=0.0)
    stopped = Summary(status="too_hard", baseline=baseline, seconds=Seconds(total=9))
    assert result_metrics(stopped, gpus=0) == {
        "0_result/baseline/frac_tasks_with_variance": 0,
        "0_result/used/seconds": 9,
        "0_result/used/gpu_hours": 0,
        "0_result/used/rollouts": 0,
        "0_result/used/tokens": 0,
    }
    text = description(stopped, "first")
    assert text.startswith("**Not trained: the model solves none of these tasks")
    assert "\n\nTake easier tasks.\n\n" in text


def test_without_a_scored_control_there_is_no_best_one():
    for found in ({"few_shot": None}, {"constant": minus(0.125, 0.625)}):
        summary = IMPROVED.model_copy(update={"difference_controls": found})
        assert best_control(summary) is None
        assert not [name for name in result_metrics(summary, gpus=0) if "over_control" in name]


def test_the_description_says_what_the_terminal_says():
    arms = {"base": {"accuracy": 0.25}, "controls": {"sft": {"accuracy": 0.5}}, "final": {"accuracy": 0.75}}
    registered = Promotion(promoted=True, name="m", version="3", alias="champion", reasons=["passes: it is better"])
    text = description(IMPROVED.model_copy(update={**arms, "promotion": registered}), "first")
    paragraphs = text.split("\n\n")
    assert paragraphs[0] == (  # a minus is no markup
        "**The trained model is better than what it started from: accuracy 25.0 % -\\> 75.0 % on 500 test "
        "tasks (+50.0 points, 95 % interval +49.0 to +52.0); no control does as well (the best of 2 is SFT on your "
        "gold answers (50.0 %)).**"
    )
    table = "|  | test |\n| --- | --- |\n| base model | 25.0 % |\n| SFT on your gold answers | 50.0 % |"
    assert any(paragraph.startswith(table) for paragraph in paragraphs)
    assert "Registry when the run ended: m version 3, alias champion\n- passes: it is better" in paragraphs
    assert paragraphs[-1] == "`rlft show first` shows its conversations."


def test_what_a_model_wrote_is_no_markup():
    said = "<img src=x> [a](http://b) \x1b]8;; | `c`"
    change = minus(0.75, -0.25)
    hostile = IMPROVED.model_copy(update={"constant_answer": said, "difference_controls": {"constant": change}})
    text = description(hostile, "first")
    assert "\\<img src=x\\> \\[a\\](http://b)" in text
    assert "\x1b" not in text


def test_a_run_that_was_cut_short_says_how_it_goes_on():
    assert cut_short("interrupted", "`rlft resume 'my run'` goes on") == (
        "**The run was cut short: interrupted.**\n\n`rlft resume 'my run'` goes on."
    )
    assert cut_short("died: *x*", "giving it again goes on").endswith("died: \\*x\\*.**\n\nGiving it again goes on.")


def test_what_judges_took_is_added_up_over_the_stages():
    rounds = JudgeCost(calls=1000, failed=2, cached=50, prompt_tokens=20_000, completion_tokens=500)
    other = JudgeCost(calls=10, prompt_tokens=200, completion_tokens=5)
    priced = Summary(status="improved", judges={"rounds": rounds, "evaluation": other})
    found = {name: value for name, value in result_metrics(priced, gpus=0).items() if "judge" in name}
    assert found == {
        "0_result/used/judge_calls": 1010,
        "0_result/used/judge_tokens": 20_705,
    }
    assert judges_effort(priced) == (
        "judges: 1,010 calls, 2 of them without an answer, and 50 votes that were known; 20,200 tokens read and 505 "
        "written"
    )
    untold = other.model_copy(update={"untold": 7})
    unknown = priced.model_copy(update={"judges": {"rounds": rounds, "evaluation": untold}})
    assert judges_effort(unknown).endswith("505 written; the tokens of 7 answers are not known")
    assert judges_effort(IMPROVED) == ""
