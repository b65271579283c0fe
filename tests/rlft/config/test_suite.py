"""Suites: files of their own, sections of a config, and configs without one."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rlft.config.file import check_suite_variables, load_suite
from rlft.errors import ConfigError
from tests.shipped import ROOT

TINY = ROOT / "tests/fixtures/configs/tiny.yaml"
SCENARIO = {
    "tasks": {"source": "jsonl", "path": "tasks.jsonl"},
    "environment": {"name": "mine.py:Mine"},
}


def written(folder: Path, **content) -> Path:
    file = folder / "suite.yaml"
    file.write_text(yaml.safe_dump({"name": "quick", "scenarios": {"held_out": SCENARIO}} | content))
    return file


def of_scenario(folder: Path, **changes) -> Path:
    return written(folder, scenarios={"held_out": SCENARIO | changes})


@pytest.mark.slow
def test_a_file_of_its_own(tmp_path):
    ways = [{"name": "greedy"}, {"name": "sampled", "temperature": 1.0, "num_generations": 8}]
    suite = load_suite(of_scenario(tmp_path, sampling=ways, slices=["level"], splits="all"), ["seed=3"])
    greedy, sampled = suite.cells()
    assert (suite.seed, suite.main_metric) == (3, "accuracy")
    assert [(cell.name, cell.scenario) for cell in (greedy, sampled)] == [
        ("held_out-greedy", "held_out"), ("held_out-sampled", "held_out"),
    ]  # fmt: skip
    assert (sampled.sampling.num_generations, sampled.sampling.max_completion_length) == (8, 256)
    assert (greedy.splits, greedy.is_whole, greedy.slices) == (["test"], True, ["level"])


@pytest.mark.slow
def test_a_config_without_a_suite_is_one_scenario_of_its_own_splits():
    (cell,) = load_suite(TINY, ["evaluation.temperature=0.5", "evaluation.num_generations=2"]).cells()
    assert (cell.name, cell.splits) == ("own", ["test", "gate", "off_distribution"])
    assert (cell.sampling.temperature, cell.sampling.num_generations) == (0.5, 2)
    assert cell.sampling.max_completion_length == 4
    (cell,) = load_suite(ROOT / "configs/calculator.yaml").cells()
    assert "off_distribution" not in cell.splits or cell.tasks.off_distribution is not None


def test_scenarios_of_a_config_take_over_what_they_leave_out():
    suite = load_suite(
        TINY, ["suite={scenarios: {a: {splits: [gate]}, b: {reward: {full: 2.0}}}}", "policy.device=cpu"]
    )
    a, b = suite.cells()
    assert (a.tasks, a.environment) == (b.tasks, b.environment)
    assert (a.reward.full, b.reward.full) == (None, 2.0)
    assert (suite.name, suite.policy.device, suite.rollout.max_completion_length) == ("tiny", "cpu", 4)


def test_servers_of_the_config_sample_no_other_models():
    where = "rollout.server.addresses=['http://127.0.0.1:8000']"
    suite = load_suite(TINY, ["rollout.engine=vllm_server", where, "evaluation.temperature=1.0"])
    assert suite.rollout.engine == "auto"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"splits": ["test", "hidden"]}, "scenarios.held_out.splits"),
        ({"splits": "hidden"}, "scenarios.held_out.splits"),
        ({"sampling": []}, "scenarios.held_out.sampling"),
        ({"sampling": [{"name": "a"}, {"name": "a"}]}, "a `name` of its own"),
        ({"slice": ["a"]}, "scenarios.held_out.slice: unknown setting"),
        ({"sampling": {"num_generations": 4}}, "samples the same answer again"),
        ({"sampling": {"name": "a-b"}}, "scenarios.held_out.sampling.0.name"),
        ({"tasks": None}, "scenarios.held_out.tasks: it is missing"),
        ({"harness": {"max_turns": "env:TURNS"}}, "harness.max_turns"),
    ],
)
def test_what_is_wrong_in_a_scenario_is_told_with_its_place(tmp_path, changes, says):
    with pytest.raises(ConfigError) as error:
        load_suite(of_scenario(tmp_path, **changes))
    assert says in str(error.value)
    assert "suite.yaml" in str(error.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"name": "a b"}, "is no name"),
        ({"scenarios": {}}, "scenarios"),
        ({"scenarios": {"a-b": SCENARIO}}, "scenarios.a-b"),
        ({"metrc": "reward"}, "did you mean metric"),
        ({"rollout": {"engine": "vllm_server", "server": {"addresses": ["http://127.0.0.1:1"]}}}, "openai:MODEL@URL"),
        ({"experiment": "sk-abcdefghijklmnopqrstuvwxyz0123456789abcdef"}, "looks like a secret"),
    ],
)
def test_what_is_wrong_in_a_suite_is_told_with_its_place(tmp_path, content, says):
    with pytest.raises(ConfigError) as error:
        load_suite(written(tmp_path, **content))
    assert says in str(error.value)


def test_a_file_that_is_none_names_an_example(tmp_path):
    with pytest.raises(ConfigError, match=r"configs/suites/demo\.yaml"):
        load_suite(tmp_path / "absent.yaml")


@pytest.mark.parametrize(
    ("content", "fix"),
    [
        (
            {"scenario": {"held_out": SCENARIO}, "policy": {"device": "cpu"}},
            "start from configs/suites/demo.yaml",
        ),
        ({"policy": {"device": "cpu"}}, "start from configs/suites/demo.yaml"),
    ],
)
def test_what_is_neither_a_suite_nor_a_config_is_told_in_one_sentence(tmp_path, content, fix):
    file = tmp_path / "suite.yaml"
    file.write_text(yaml.safe_dump({"name": "quick"} | content))
    with pytest.raises(ConfigError) as error:
        load_suite(file)
    assert error.value.what.startswith("this is neither a suite (it has no scenarios) nor a config")
    assert error.value.fix == fix


def test_variables_are_read_in_environments_alone(tmp_path, monkeypatch):
    environment = {"name": "mine.py:Mine", "kwargs": {"key": "env:RLFT_SUITE_TEST"}}
    suite = load_suite(of_scenario(tmp_path, environment=environment))
    monkeypatch.delenv("RLFT_SUITE_TEST", raising=False)
    with pytest.raises(ConfigError, match=r"scenarios\.held_out\.environment\.kwargs"):
        check_suite_variables(suite)
    monkeypatch.setenv("RLFT_SUITE_TEST", "x")
    check_suite_variables(suite)
