"""Every shipped config starts for real: shortened, and with local stand-ins for what it names on the hub."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import ROOT

pytestmark = pytest.mark.timeout(400)


def sets(**options) -> list[str]:
    """Options as `--set` arguments; `__` stands for a dot."""
    return [part for key, value in options.items() for part in ("--set", f"{key.replace('__', '.')}={value}")]


def test_the_demo_starts_from_a_warm_start_that_is_neither_hopeless_nor_finished(make_home):
    home = make_home("demo")
    options = sets(training__rounds=2, evaluation__sft_control="false", evaluation__resamples=200)
    result = home.rlft("run", str(ROOT / "configs" / "demo.yaml"), *options)
    assert result.code == 0, result.output
    assert 0.15 <= result.summary["baseline"]["accuracy"] <= 0.6  # sampled at temperature 1
    assert result.summary["difference"]["tasks"] == 500
    assert result.summary["ledger"]["sampled"] == 2 * 128 * 8


def test_stories_runs_on_a_real_pretrained_model_and_shows_every_part(make_home, shared_data):
    home = make_home("stories")
    options = sets(
        policy__model=shared_data / "model_stories260k" / "hf",
        tasks__path=ROOT / "configs" / "tasks" / "stories.jsonl",
        tasks__off_distribution__path=ROOT / "configs" / "tasks" / "stories_off_distribution.jsonl",
        training__rounds=1,
        training__tasks_per_round=4,
        evaluation__num_generations=1,
        baseline__num_tasks=4,
        baseline__num_generations=2,
        rollout__max_completion_length=60,
    )
    result = home.rlft("run", str(ROOT / "configs" / "stories.yaml"), *options)
    assert result.code == 0, result.output
    assert {"rewards/ends", "rewards/no_repeats", "rewards/word"} <= set(result.summary["final"])
    assert result.summary["warm_start"] == {}
    assert result.summary["difference"] == result.summary["difference_base"]
