"""What a stage says of itself, by value, on a clock that the test turns."""

from __future__ import annotations

from datetime import datetime

import pytest

from rlft.bars import Stage, duration

NOON = datetime(2026, 1, 1, 12, 0)


@pytest.fixture
def clock():
    class Clock:
        seconds = 1000.0

        def __call__(self):
            return self.seconds

        def tell(self, stage, after, done, total, what, **figures):
            """Report so many seconds after the stage began."""
            self.seconds = stage.began + after
            stage(done, total, what, **figures)

    return Clock()


def test_steps_with_a_loss(clock):
    stage = Stage("warm start", clock)
    for after, done, tokens in ((0, 0, 0), (200, 100, 5000), (400, 200, 10_000)):
        clock.tell(stage, after, done, 4000, "steps", tokens=tokens, loss=1.23456)
    # 100 steps and 5,000 tokens in the later 200 s: half a step and 25 tokens a second; 3,800 steps take 7,600 s
    assert stage.facts() == ["200 of 4,000 steps", "2 h 7 min left", "0.5 steps/s", "25 tokens/s", "loss 1.235"]
    assert stage.words(now=NOON).startswith("warm start: 200 of 4,000 steps, 2 h 7 min left until about 14:06, ")
    clock.seconds += 600  # time goes on between reports: 7,000 s
    assert stage.facts()[1] == "1 h 57 min left"


def test_seconds_have_no_rate(clock):
    stage = Stage("sft control", clock)
    for after in (0, 10, 20):
        clock.tell(stage, after, after, 843, "s", loss=0.5 if after else None)
    assert stage.facts() == ["20 of 843 s", "14 min left", "loss 0.5"]


def test_nothing_is_known_yet(clock):
    stage = Stage("policy", clock)
    clock.seconds += 65
    assert stage.words() == "policy: 65 s so far"
    stage(0, None, "loading the model")
    assert stage.words(now=NOON) == "policy: loading the model, 65 s so far"
    stage(0, 500, "prompts")
    assert stage.words() == "policy: 0 of 500 prompts, 65 s so far"


def test_a_count_without_an_end(clock):
    stage = Stage("tasks", clock)
    clock.tell(stage, 0, 0, None, "rows")
    clock.tell(stage, 20, 246_000, None, "rows")
    assert stage.facts() == ["246,000 rows", "20 s so far", "12,300 rows/s"]


def test_what_was_there_before_a_resume_is_no_pace(clock):
    stage = Stage("warm start", clock)
    clock.tell(stage, 0, 3000, 4000, "steps")
    clock.tell(stage, 10, 3010, 4000, "steps")
    assert stage.facts() == ["3,010 of 4,000 steps", "16 min left", "1 steps/s"]  # 990 s


def test_rounds_from_a_cache_do_not_promise_a_quick_end(clock):
    stage = Stage("training", clock)
    for number in range(6):
        clock.tell(stage, number / 5, number, 10, "rounds")
    clock.tell(stage, 61, 6, 10, "rounds")
    clock.tell(stage, 121, 7, 10, "rounds")
    # the middle of 121 s is 60.5 s, of which round 5 (1 s) is the last report before: 2 rounds in 120 s
    assert stage.facts() == ["7 of 10 rounds", "3 min left", "0.017 rounds/s"]


@pytest.mark.parametrize("next_part", [(5, 20, "scores"), (5, 50, "conversations")])
def test_another_part_has_a_pace_of_its_own(clock, next_part):
    done, total, what = next_part
    stage = Stage("reward audit", clock)
    clock.tell(stage, 0, 0, 50, "conversations")
    clock.tell(stage, 1, 50, 50, "conversations")
    clock.tell(stage, 2, 0, total, what)
    clock.tell(stage, 12, done, total, what)
    assert stage.facts()[-1] == f"0.5 {what}/s"


def test_many_reports_keep_a_few_and_the_pace_of_the_later_half(clock):
    stage = Stage("rollouts", clock)
    for number in range(10_001):  # a hundred a second, then ten
        clock.tell(stage, number / 100 if number < 5000 else 50 + (number - 5000) / 10, number, 20_000, "rollouts")
    assert len(stage._samples) <= 64
    assert stage.facts() == ["10,000 of 20,000 rollouts", "17 min left", "10 rollouts/s"]  # 1,000 s


def test_an_end_is_not_promised_again_when_all_is_done(clock):
    stage = Stage("scores", clock)
    clock.tell(stage, 0, 0, 10, "scores")
    clock.tell(stage, 40, 10, 10, "scores")
    assert stage.facts() == ["10 of 10 scores", "40 s so far"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (119, "119 s"), (120, "2 min"), (3599, "1 h 0 min"), (7500, "2 h 5 min")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text
