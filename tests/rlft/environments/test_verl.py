import numpy as np
import pandas as pd
import pytest

from rlft.config import RewardConfig, TasksConfig
from rlft.environments.contract.loading import load_environment
from rlft.environments.fingerprints import environment_fingerprints
from rlft.environments.verl import VerlRewards
from rlft.errors import EnvironmentSetupError
from rlft.rewards.scoring import score_rollouts
from rlft.tasks import ingest_tasks
from tests.rlft.attempts import answered, audited, make_task

MODULE = "tests.rlft.environments.user_rewards"
NAME = "rlft.environments.verl:VerlRewards"


def build(function="compute_score", **kwargs):
    environment = load_environment(NAME, {"compute_score": f"{MODULE}:{function}", **kwargs})
    assert isinstance(environment, VerlRewards)
    return environment


def score(environment, task, *texts, weights=None):
    return score_rollouts(
        answered(task, *texts), {task.id: task}, environment, RewardConfig(weights=weights or {}, timeout_seconds=5.0)
    )


TASK = make_task("v", "2 + 2?", "4", data_source="openai/gsm8k", extra_info={"index": 7})


def test_a_number_is_the_score():
    right, wrong, silence = score(build(), TASK, "Two and two.\n#### 4", "#### 5", "")
    assert (right.parts, right.total, right.solved) == ({"score": 1.0}, 1.0, True)
    assert (wrong.parts, silence.parts) == ({"score": 0.0}, {"score": 0.0})


def test_the_other_numbers_of_a_dict_are_metrics():
    rewards = score(build("compute_score_dict", reward_kwargs={"penalty": 0.25}), TASK, "it is 4", "it is 5")
    right, wrong = rewards
    # `pred` is a text, so it is no part. The index 7 is shown and weighs nothing.
    assert (right.parts, right.total, right.solved) == ({"score": 1.0, "acc": 1.0, "index": 7.0}, 1.0, True)
    assert (wrong.parts, wrong.total, wrong.solved) == ({"score": -0.25, "acc": 0.0, "index": 7.0}, -0.25, False)
    assert rewards.weights == {"acc": 0.0, "index": 0.0, "score": 1.0}


def test_what_is_full_can_be_declared():
    rewards = score(build("five_points", maxima={"score": 5.0}), TASK, "4", "it is 4", "3")
    assert [(row.total, row.solved) for row in rewards] == [(5.0, True), (2.0, False), (-1.0, False)]
    (row,) = score(build("five_points"), TASK, "4")
    assert "part 'score' is above its maximum: 5 of 1; what to do: " in str(row.error)


def test_a_metric_can_be_given_a_weight():
    (right,) = score(build("compute_score_dict"), TASK, "it is 4", weights={"acc": 0.5})
    assert right.total == 1.5


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_rows_from_a_file_to_scores(tmp_path, kind):
    rows = [
        {
            "data_source": "openai/gsm8k",
            "prompt": np.array([{"role": "user", "content": f"{n} + 2?"}], dtype=object),
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": str(n + 2)},
            "extra_info": {"split": "train", "index": n, "tags": np.array([1, 2])},
            "answer": "not the ground truth",
        }
        for n in range(60)
    ]
    path = tmp_path / f"rows.{kind}"
    frame = pd.DataFrame(rows)
    frame.to_parquet(path) if kind == "parquet" else frame.to_json(path, orient="records", lines=True)
    config = TasksConfig.model_validate({"source": kind, "path": str(path)})
    tasks = ingest_tasks(config, environment=NAME, seed=0).tasks
    environment = build(gold_template="#### {reward_model[ground_truth]}")
    assert len(tasks) == 60
    for task in tasks:
        number = task.info["extra_info"]["index"]
        assert environment.gold_completion(task) == f"#### {number + 2}"
        right, wrong = score(environment, task, f"#### {number + 2}", f"#### {number}")
        assert (right.total, wrong.total) == (1.0, 0.0)
    report = audited(tasks, environment, timeout_seconds=5.0)
    assert report.passed, report.text()


def test_what_is_missing_is_an_error_of_the_rollout():
    (row,) = score(build("score_without_score"), TASK, "4")
    assert "returned a dict without 'score': ['acc']" in str(row.error)
    (row,) = score(build(), make_task("x", "2 + 2?", "4"), "4")
    assert "KeyError: 'data_source'" in str(row.error)


@pytest.mark.parametrize(
    ("kwargs", "cause"),
    [
        ({"compute_score": f"{MODULE}:compute_scor"}, "no function 'compute_scor'(.|\n)*name one that is there: "),
    ],
)
def test_settings_that_cannot_work_are_refused(kwargs, cause):
    with pytest.raises(EnvironmentSetupError, match=cause):
        load_environment(NAME, kwargs)


@pytest.mark.slow
def test_another_function_is_another_reward_and_the_same_sampling(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n    return 1.0\n"
    kwargs = {"compute_score": "mine.py:compute_score"}
    prints = []
    for text in (code, code.replace("1.0", "0.5")):
        (tmp_path / "mine.py").write_text(text)
        prints.append(environment_fingerprints(load_environment(NAME, kwargs), NAME, kwargs))
    assert prints[0].harness == prints[1].harness
    assert prints[0].reward != prints[1].reward


def test_a_function_cannot_change_the_task():
    task = make_task("v", "2 + 2?", "4", data_source="openai/gsm8k", extra_info={"index": 7})
    assert [row.total for row in score(build("greedy_score"), task, "4", "4")] == [1.0, 1.0]
    assert task.info["extra_info"] == {"index": 7}
