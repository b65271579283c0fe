"""What an evaluation needs in pods: all that its scenarios, scorers and models name."""

from __future__ import annotations

from mlops.stacks.archive import Needs, lacking_files, needs_of_suite
from mlops.stacks.image import image_settings
from rlft.config.file import load_config, variables_of
from rlft.config.suite_file import load_suite
from rlft.suites.models import parse_model
from tests.mlops.stacks.conftest import git

SUITE = """
name: both
policy: {chat_template: chat.jinja}
rollout: {engine: vllm}
scorers: ["judge.py:tone", Safety]
scenarios:
  own:
    tasks: {source: jsonl, path: tasks.jsonl}
    environment: {name: "capitals.py:Capitals", kwargs: {places: {file: places.txt}, key: "env:JUDGE_KEY"}}
  other:
    tasks: {source: jsonl, path: others.jsonl}
    environment: {name: "others.py:Others"}
"""
MODELS = ["./model", "second", "org/name@main", "first:best", "openai:gpt@http://127.0.0.1:1/v1"]


def test_an_evaluation_needs_what_each_scenario_scorer_and_folder_names(folder, remote):
    (folder / "suite.yaml").write_text(SUITE)
    (folder / "judge.py").write_text("import helper\n")
    for name in ("chat.jinja", "others.jsonl", "helper.py"):
        (folder / name).write_text("")
    (folder / "second").mkdir()
    (folder / "second" / "config.json").write_text("{}")
    needs = needs_of_suite(load_suite(folder / "suite.yaml"), [parse_model(each) for each in MODELS], "env:MODEL_KEY")
    assert list(dict.fromkeys(needs.variables())) == [
        ("environment.kwargs.key", "JUDGE_KEY"),
        ("--api-key-env", "MODEL_KEY"),
    ]
    [problem] = lacking_files(needs)
    lines = [line.strip() for line in problem.what.splitlines()[1:]]
    assert set(lines) == {
        "environment.name: capitals.py",
        "scorers: judge.py",
        "imported: helper.py",
        "tasks.path: tasks.jsonl",
        "tasks.path: others.jsonl",
        "environment.kwargs: places.txt",
        "policy.model: model",
        "policy.model: second",
        "policy.chat_template: chat.jinja",
        "environment.name: others.py (it is not here, either)",
    }
    assert len(lines) == len(set(lines))
    git(folder, "init")
    [problem] = lacking_files(needs)
    assert [line.strip() for line in problem.what.splitlines()[1:]] == [
        "environment.name: others.py (it is not here, either)"
    ]
    docker = image_settings(needs.configs[0])["docker"]
    assert any(line.startswith("vllm==") for line in docker.requirements)  # which samples there
    assert remote.orchestrator.flavor == "kubernetes"


def test_models_that_are_no_folders_need_no_files(folder):
    suite = load_suite(folder / "config.yaml")
    needs = needs_of_suite(suite, [parse_model("first:best")], None)
    git(folder, "init")
    assert (lacking_files(needs), list(needs.variables())) == ([], [])


def test_the_variables_of_a_run_are_those_that_its_config_names(folder):
    changes = [
        "environment.kwargs={token: 'Bearer {env:TOOL_TOKEN}', places: {file: places.txt}}",
        "rollout={engine: vllm_server, server: {addresses: ['env:SERVER']}}",
        'controls=[{model: gpt, endpoint: "http://127.0.0.1:1/v1", api_key: "env:MODEL_KEY"}]',
    ]
    config = load_config(folder / "config.yaml", changes)
    found = [("environment.kwargs.token", "TOOL_TOKEN"), ("rollout.server.addresses[0]", "SERVER")]
    assert list(variables_of(config)) == [*found, ("controls.api_key", "MODEL_KEY")]
    assert list(Needs((config,)).variables()) == list(variables_of(config))
