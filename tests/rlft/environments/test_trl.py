from dataclasses import replace
from pathlib import Path

import pytest

from rlft.config import RewardConfig, TasksConfig
from rlft.environments.contract.loading import load_environment
from rlft.environments.fingerprints import environment_fingerprints
from rlft.environments.trl import TrlRewards
from rlft.errors import EnvironmentSetupError
from rlft.rewards.scoring import score_rollouts
from rlft.tasks import ingest_tasks
from tests.rlft.attempts import answered, audited, make_task

HERE = Path(__file__).parent
MODULE = "tests.rlft.environments.user_rewards"
FIXTURES = Path(__file__).parents[2] / "fixtures" / "tasks"


def build(*functions, **kwargs):
    kwargs = {"reward_functions": [f"{MODULE}:{name}" for name in functions], "format": "standard", **kwargs}
    environment = load_environment("rlft.environments.trl:TrlRewards", kwargs)
    assert isinstance(environment, TrlRewards)
    return environment


def score(environment, task, *texts, weights=None):
    rows = score_rollouts(
        answered(task, *texts), {task.id: task}, environment, RewardConfig(weights=weights or {}, timeout_seconds=5.0)
    )
    return list(rows)


def parts(environment, task, text):
    (row,) = score(environment, task, text)
    assert row.error is None, row.error
    return row.parts


PERU = make_task("p", "Name the capital of Peru.", None, solution="Lima", difficulty=0.2)
CHAD = make_task("c", "Name the capital of Chad.", None, solution="N'Djamena", difficulty=0.6)


def test_texts_and_columns_become_parts_by_name():
    environment = build("exact", "brief", "only_hard")
    assert parts(environment, PERU, "Lima") == {"exact": 1.0, "brief": 1.0, "only_hard": None}
    assert parts(environment, CHAD, "It is N'Djamena") == {"exact": 0.0, "brief": 0.5, "only_hard": 1.0}


def test_weights_and_what_does_not_apply():
    # Lima: what applies is full, 2 * 1 + 0.5 * 1 of 2.5, so it earns the 3.5 of all three. Chad: 2 * 0 + 0.5 * 0.5 + 1.
    environment, weights = build("exact", "brief", "only_hard"), {"exact": 2.0, "brief": 0.5}
    (peru,) = score(environment, PERU, "Lima", weights=weights)
    (chad,) = score(environment, CHAD, "It is N'Djamena", weights=weights)
    assert (peru.total, peru.solved) == (3.5, True)
    assert (chad.total, chad.solved) == (1.25, False)


def test_messages_for_functions_of_the_conversational_format():
    environment = build("tagged", "judged", format="conversational")
    assert parts(environment, PERU, "<think>hm</think><answer>Lima</answer>") == {"tagged": 1.0, "judged": 1.0}
    assert parts(environment, PERU, "<answer>Lima</answer>") == {"tagged": 0.0, "judged": 1.0}
    assert parts(environment, PERU, "Lima") == {"tagged": 0.0, "judged": 0.0}


def test_functions_that_come_with_trl():
    name = "trl.rewards:think_format_reward"
    environment = TrlRewards([name, "trl.rewards:accuracy_reward"], "conversational")
    task = make_task("m", "What is 1/2 + 1/4?", None, solution=r"\frac{3}{4}")
    right = parts(environment, task, r"<think>Two quarters and one.</think>$\boxed{\frac{3}{4}}$")
    wrong = parts(environment, task, r"Is it $\boxed{\frac{1}{4}}$?")
    assert right == {"think_format_reward": 1.0, "accuracy_reward": 1.0}
    assert wrong == {"think_format_reward": 0.0, "accuracy_reward": 0.0}


def test_trl_rows_from_a_file_to_scores(tmp_path):
    text = (FIXTURES / "trl.jsonl").read_text()
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(text.replace("Name", f"{n}. Name") for n in range(8)))
    config = TasksConfig.model_validate(
        {
            "source": "jsonl",
            "path": str(path),
            "prompt": "prompt",
            "splits": dict.fromkeys(("train", "validation", "gate", "test"), 1),
        }
    )
    tasks = ingest_tasks(config, environment="rlft.environments.trl:TrlRewards", seed=0).tasks
    environment = build("judged", format="conversational", gold_template="<answer>{solution}</answer>")
    assert len(tasks) == 16
    assert {len(task.prompt) for task in tasks} == {1, 2}  # a text, and a system prompt with a question
    for task in tasks:
        gold = environment.gold_completion(task)
        assert gold == f"<answer>{task.info['solution']}</answer>"
        right, wrong, again = score(environment, task, gold, "<answer></answer>", gold)
        assert (right.total, right.solved, wrong.total, again.parts) == (1.0, True, 0.0, right.parts)
    report = audited(tasks, environment, timeout_seconds=5.0)
    assert report.passed, report.text()


def test_the_tasks_answer_is_a_column_too():
    task = make_task("a", "Name the capital of Peru.", "Lima")
    environment = build("exact", answer_column="solution", gold_template="{solution}")
    assert parts(environment, task, "Lima") == {"exact": 1.0}
    assert environment.gold_completion(task) == "Lima"
    assert build("exact").gold_completion(task) is None
    (row,) = score(build("exact"), task, "Lima")
    assert "missing 1 required positional argument: 'solution'" in str(row.error)


def test_the_columns_are_the_row_with_its_answer_and_without_the_prompt():
    row = {"prompt": "Name the capital of Peru.", "solution": "Lima", "difficulty": 0.2}
    task = replace(make_task("a", row["prompt"], "Lima"), info=row)  # as `tasks: {answer: solution}` makes it
    assert parts(build("columns", "exact"), task, "Lima") == {"columns": 1.0, "exact": 1.0}


def test_a_function_cannot_change_the_task():
    task = make_task("n", "Go.", None, notes=["old"])
    first, second = score(build("greedy", maxima={"greedy": 2.0}), task, "a", "a")
    assert (first.total, second.total) == (2.0, 2.0)  # the note that was there and its own
    assert task.info == {"notes": ["old"]}


def test_scores_beyond_one_and_below_zero_are_taken_where_they_are_declared():
    # full: 2 for the answer, nothing for a length that is right; too long costs 0.5
    (row,) = score(build("twice"), PERU, "Lima")
    assert row.total is None
    assert "part 'twice' is above its maximum: 2 of 1; what to do: " in str(row.error)
    environment = build("twice", "overlong", maxima={"twice": 2.0, "overlong": 0.0}, gold_template="{solution}")
    right, wordy, wrong = score(environment, PERU, "Lima", "It is Lima", "Rome")
    assert [(row.total, row.solved) for row in (right, wordy, wrong)] == [(2.0, True), (1.5, False), (-1.0, False)]
    # An answer that denies what it names is paid like gold by a reward that looks for the name alone.
    assert audited([PERU, CHAD], environment).exploits == ("negated",)
    assert audited([PERU, CHAD], environment, accept_exploits=["negated"]).passed


def test_what_a_function_does_wrong_is_an_error_of_the_rollout():
    (row,) = score(build("two_scores"), PERU, "Lima")
    assert row.total is None
    assert "two_scores returned 2 scores for one completion" in str(row.error)
    (row,) = score(build("tagged"), PERU, "Lima")  # written for messages, given a text
    assert row.total is None
    assert "compute_reward: TypeError" in str(row.error)


def test_a_conversation_is_no_text():
    task = make_task("s", "Hello.", None, solution="x")
    talk = type(task)(**{**{f: getattr(task, f) for f in task.__slots__}, "prompt": task.prompt * 2})
    (row,) = score(build("exact"), talk, "x")
    assert "is a conversation of 2 messages" in str(row.error)


@pytest.mark.parametrize(
    ("kwargs", "cause"),
    [
        ({"reward_functions": [f"{MODULE}:exakt"]}, "no function 'exakt'(.|\n)*name one that is there: "),
        ({"reward_functions": [f"{MODULE}:A_NUMBER"]}, "no function 'A_NUMBER'"),
        (
            {"reward_functions": [f"{MODULE}:exact", f"{HERE}/user_rewards.py:exact"]},
            "two of exact, exact",
        ),
        ({"reward_functions": ["exact"]}, "does not name a function(.|\n)*path/to/file.py:function"),
        ({"reward_functions": ["no_such_file.py:exact"]}, "reward_functions: no_such_file.py: there is no file"),
        ({"reward_functions": [f"{MODULE}:exact"], "format": "chat"}, "'standard' or 'conversational'"),
    ],
)
def test_settings_that_cannot_work_are_refused(kwargs, cause):
    with pytest.raises(EnvironmentSetupError, match=cause):
        load_environment("rlft.environments.trl:TrlRewards", {"format": "standard", **kwargs})


def test_an_edit_to_a_function_or_what_it_imports_scores_again_and_samples_nothing_again(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    own = "from helping import value\ndef rate(completions, **kwargs):\n    return [value]  # a comment\n"

    def prints(rates, helping):
        (tmp_path / "rates.py").write_text(rates)
        (tmp_path / "helping.py").write_text(helping)
        kwargs = {"reward_functions": ["rates.py:rate"], "format": "standard"}
        name = "rlft.environments.trl:TrlRewards"
        return environment_fingerprints(load_environment(name, kwargs), name, kwargs)

    first = prints(own, "value = 1.0\n")
    assert prints(own.replace("a comment", "another"), "value = 1.0\n") == first
    for edited in (prints(own.replace("[value]", "[-value]"), "value = 1.0\n"), prints(own, "value = 2.0\n")):
        assert edited.harness == first.harness
        assert edited.reward != first.reward
