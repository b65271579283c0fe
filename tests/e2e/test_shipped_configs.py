"""Every shipped config starts for real: shortened, and with local stand-ins for what it names on the hub."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.e2e.conftest import ROOT
from tests.shipped import overrides

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]


def sets(**options) -> list[str]:
    """Options as `--set` arguments; `__` stands for a dot."""
    return [part for key, value in options.items() for part in ("--set", f"{key.replace('__', '.')}={value}")]


def test_the_demo_starts_from_a_warm_start_that_is_neither_hopeless_nor_finished(make_home, shared_data):
    home = make_home("demo")
    options = sets(training__rounds=1, controls="[]")
    for pair in overrides("demo", shared_data):
        options += ["--set", pair]
    result = home.rlft("run", str(ROOT / "configs" / "demo.yaml"), *options)
    assert result.code == 0, result.output
    baseline = result.summary["baseline"]  # sampled at temperature 1
    assert 0.01 <= baseline["accuracy"] <= 0.15
    assert baseline["frac_tasks_with_variance"] >= 0.6
    assert 300 <= result.summary["difference"]["tasks"] <= 400  # rows are dealt by chance
    assert result.summary["ledger"]["sampled"] == 256 * 4


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
        controls="[]",
    )
    result = home.rlft("run", str(ROOT / "configs" / "stories.yaml"), *options)
    assert result.code == 0, result.output
    assert {"rewards/ends", "rewards/no_repeats", "rewards/word"} <= set(result.summary["final"])
    assert result.summary["warm_start"] == {}
    assert result.summary["difference"] == result.summary["difference_base"]


@pytest.fixture(scope="module")
def small_model(shared_data, tmp_path_factory):
    """A model that knows stories alone, with room for long prompts."""
    folder = tmp_path_factory.mktemp("model") / "stories"
    shutil.copytree(shared_data / "model_stories260k" / "hf", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 8192}))
    return folder


SMALL = {
    "policy__dtype": "float32",
    "policy__lora": "null",
    "baseline__num_tasks": 3,
    "baseline__num_generations": 2,
    "rollout__max_completion_length": 24,
    "training__rounds": 1,
    "training__tasks_per_round": 2,
    "training__num_generations": 2,
    "training__updates_per_round": 1,
    "tasks__splits": "{train: 30, validation: 4, gate: 4, test: 4}",
}


def test_a_weak_model_is_told_that_it_is_too_hard(make_home, shared_data, small_model):
    home, config = make_home("press_releases"), str(ROOT / "configs" / "press_releases.yaml")
    real = [part for value in overrides("press_releases", shared_data) for part in ("--set", value)]
    result = home.rlft("run", config, *real, *sets(policy__model=small_model, **SMALL))
    assert result.code == 3, result.output
    assert result.summary["status"] == "too_hard"
    assert result.summary["baseline"]["accuracy"] == 0.0
    assert "nothing can be learnt" in result.output


def test_the_calculator_is_learnt_in_conversations_that_can_be_read(make_home):
    home = make_home("calculator")
    options = SMALL | {
        "training__tasks_per_round": 16,
        "training__num_generations": 4,
        "baseline__num_tasks": 32,
        "warm_start__steps": 300,
        "controls": "[]",
        "tasks__splits": "{train: 1000, validation: 20, gate: 20, test: 20}",
        "tasks__off_distribution_count": 20,
    }
    del options["policy__dtype"], options["policy__lora"]
    result = home.rlft("run", str(ROOT / "configs" / "calculator.yaml"), *sets(**options))
    assert result.code == 0, result.output
    assert result.summary["ledger"]["errored"] == 0
    assert set(result.summary["differences"]) == {"rewards/correct", "rewards/used_tool"}
    assert result.summary["differences"]["rewards/used_tool"]["tasks"] == 20
