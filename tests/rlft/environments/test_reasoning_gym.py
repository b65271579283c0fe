import asyncio

import pytest

from rlft.environments.reasoning_gym import ReasoningGym
from rlft.types import Trajectory
from tests.rlft.attempts import make_task

ENTRY = {"question": "4 + 5 =", "answer": "9", "metadata": {}}
TASK = make_task("g", "4 + 5 =", "9", generator="chain_sum", generator_kwargs={}, entry=ENTRY)


def parts(environment, text, task=TASK):
    completion = Trajectory([{"role": "assistant", "content": text}], task=task)
    return asyncio.run(environment.compute_reward(completion, task.answer))


def test_only_a_score_of_one_is_correct():
    # chain_sum pays len(gold) / len(answer) = 1/2 for an answer that contains the gold.
    environment = ReasoningGym(partial_credit=True)
    assert parts(environment, "9") == {"correct": 1.0, "score": 1.0}
    assert parts(environment, "19") == {"correct": 0.0, "score": 0.5}
    assert parts(ReasoningGym(), "19") == {"correct": 0.0}


def test_the_pattern_must_match_exactly_once():
    environment = ReasoningGym(answer_pattern=r"Answer: (.+)", gold_template="Answer: {answer}")
    assert parts(environment, "4 and 5 make\nAnswer: 9") == {"correct": 1.0}
    assert parts(environment, "9") == {"correct": 0.0}
    assert parts(environment, "Answer: 8\nAnswer: 9") == {"correct": 0.0}
    assert parts(environment, "Answer: 9\nAnswer: 8") == {"correct": 0.0}
    assert environment.gold_completion(TASK) == "Answer: 9"
    assert ReasoningGym(answer_pattern=r"Answer: (.+)").gold_completion(TASK) is None


def test_the_verifier_is_made_once_per_generator(monkeypatch):
    made = []

    class Verifier:
        def score_answer(self, answer, entry):
            return float(answer == entry["answer"])

    monkeypatch.setattr(
        "rlft.environments.reasoning_gym.load_generator",
        lambda name, kwargs, seed, size: made.append(name) or Verifier(),
    )
    environment = ReasoningGym()
    assert [parts(environment, text)["correct"] for text in ("9", "8", "9")] == [1.0, 0.0, 1.0]
    assert made == ["chain_sum"]


def test_a_task_of_another_source_is_an_error():
    with pytest.raises(KeyError, match="generator"):
        parts(ReasoningGym(), "9", make_task("x", "4 + 5 =", "9"))
