"""All problems of an experiment at once, and costly looks only where the quick ones found nothing."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml

from rlft.config.file import load_config
from rlft.errors import DistributedError, RlftError
from rlft.estimation import readiness
from rlft.estimation.readiness import find_problems
from tests.e2e.conftest import TINY


@pytest.fixture
def costly(monkeypatch):
    """The names of the sections whose costly look was taken."""
    taken = []
    check = readiness.check_rows

    def look(source, section, **options):
        taken.append(section) if source.source == "reasoning_gym" else check(source, section, **options)

    monkeypatch.setattr(readiness, "check_rows", look)
    return taken


def problems(tmp_path, *overrides):
    return [(error.where, error.what) for error in find_problems(load_config(TINY, list(overrides)), tmp_path)]


def test_nothing_is_wrong_with_a_config_that_runs(tmp_path, costly):
    assert problems(tmp_path) == []
    assert costly == ["tasks", "tasks.off_distribution"]


def test_all_that_is_wrong_is_told_before_anything_costly(tmp_path, costly):
    found = dict(
        problems(
            tmp_path,
            "rollout={engine: vllm_server, max_completion_length: 4, server: {addresses: [http://127.0.0.1:9]}}",
            "tasks.off_distribution={source: jsonl, path: absent.jsonl}",
            "environment.name=rlft.environments.reasoning_gym:Reasoning",
            "warm_start.path=shown.jsonl",
            "policy={model: ./absent, chat_template: nowhere}",
        )
    )
    assert set(found) == {
        "rollout.server.addresses",
        "absent.jsonl",
        "environment.name: rlft.environments.reasoning_gym",
        "shown.jsonl",
        "policy.model",
        "policy.chat_template",
    }
    assert costly == []


def test_what_a_program_in_the_sandbox_could_read_is_refused(costly):
    assert [where for where, _ in problems(Path("/usr/lib/rlft-home"))] == ["the home"]


def test_an_environment_that_cannot_be_built_is_told(tmp_path, costly):
    [(where, what)] = problems(tmp_path, "environment.kwargs={nonsense: 1}")
    assert where == "environment.kwargs"
    assert "nonsense" in what


def test_a_loss_that_cannot_be_used_is_told(tmp_path):
    file = tmp_path / "my_loss.py"
    overrides = [f"training={{loss_type: '{file}:Mine'}}"]
    assert problems(tmp_path, *overrides) == [("training.loss_type", f"no such file (looked in {Path.cwd()})")]
    file.write_text("class Mine:\n    pass\n")
    [(where, what)] = problems(tmp_path, *overrides)
    assert (where, "Mine" in what) == (f"training.loss_type: {file}", True)


MARKED = """
import rlft

class Marked(rlft.BaseEnv):
    @rlft.reward
    def exact(self, text, ground_truth):
        return float(text == ground_truth)

    @rlft.metric
    def words(self, text):
        return len(text.split())

class Other(Marked):
    async def compute_reward(self, completion, ground_truth):
        return {"anything": 1.0}
"""


def test_a_weight_for_a_part_that_no_method_is_is_told(tmp_path, monkeypatch, costly):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "marked.py").write_text(MARKED)
    named = "environment.name=marked.py:Marked"
    assert problems(tmp_path, named, "reward.weights={exact: 2.0, words: 0.1, '*': 1.0}") == []
    [found] = find_problems(load_config(TINY, [named, "reward.weights={exakt: 2.0}"]), tmp_path)
    assert (found.where, found.what) == ("reward.weights", "the environment's reward has no part 'exakt'")
    assert found.fix == "did you mean exact? The parts are: exact, words"
    # What compute_reward names is known only once it was called.
    assert problems(tmp_path, "environment.name=marked.py:Other", "reward.weights={exakt: 2.0}") == []


def test_a_problem_that_two_looks_find_is_told_once():
    def look():
        raise RlftError("wrong", where="here")

    assert [str(error) for error in readiness.raised_by([look, look])] == ["here: wrong"]


def test_another_model_of_a_control_that_is_not_there_is_told_before_anything_is_trained(tmp_path, costly):
    [(where, what)] = problems(tmp_path, "controls=[{model: ./absent}]")
    assert where == "controls"
    assert "there is no folder './absent'" in what


def test_the_problems_of_several_environments_are_told_with_their_names(tmp_path, costly):
    content = yaml.safe_load(TINY.read_text())
    mine = {"environment": content["environment"], "tasks": content["tasks"]}
    environments = {name: copy.deepcopy(mine) for name in ("one", "two")}  # without aliases in the file
    del content["tasks"], content["environment"]
    path = tmp_path / "several.yaml"
    path.write_text(yaml.safe_dump(content | {"environments": environments}))

    def found(*overrides):
        return [(error.where, error.what) for error in find_problems(load_config(path, list(overrides)), tmp_path)]

    assert found() == []
    assert costly == [
        "environments.one.tasks",
        "environments.one.tasks.off_distribution",
        "environments.two.tasks",
        "environments.two.tasks.off_distribution",
    ]
    [(where, what)] = found("environments.two.environment.kwargs={nonsense: 1}")
    assert where == "environments.two: environment.kwargs"
    assert "nonsense" in what
    [(where, _)] = found("environments.two.tasks.off_distribution={source: jsonl, path: absent.jsonl}")
    assert where == "absent.jsonl"


def test_ray_is_needed_where_it_is_to_train(monkeypatch):
    monkeypatch.setattr(readiness, "is_installed", lambda _: False)
    readiness.check_machine(load_config(TINY))
    with pytest.raises(DistributedError, match="Ray is not installed"):
        readiness.check_machine(load_config(TINY, ["distributed={engine: ray, trainers: 4}"]))


@pytest.mark.parametrize(
    ("gpus", "cores", "trainers", "device", "lacks"),
    [
        (3, 9, 4, "cuda", "GPU"),  # one for each trainer
        (4, 1, 4, "auto", None),
        (3, 3, 4, "cpu", "core"),
        (0, 4, 4, "auto", None),
    ],
)
def test_gpus_and_cores_for_trainers(monkeypatch, gpus, cores, trainers, device, lacks):
    monkeypatch.setattr(readiness, "is_installed", lambda _: True)
    monkeypatch.setattr(readiness, "gpus_here", lambda: [1] * gpus)
    monkeypatch.setattr(readiness, "cores_here", lambda: cores)
    ray = f"distributed={{engine: ray, trainers: {trainers}}}"
    readiness.check_machine(load_config(TINY, [f"policy.device={device}"]))
    config = load_config(TINY, [f"policy.device={device}", ray])
    said = f"{trainers} trainers need a {lacks} each, and this machine has 3"
    with pytest.raises(DistributedError, match=said) if lacks else nullcontext():
        readiness.check_machine(config)
    config = load_config(TINY, [f"policy.device={device}", f"{ray[:-1]}, address: auto}}"])
    readiness.check_machine(config)  # the machines of a cluster are looked at there
