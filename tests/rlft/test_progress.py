"""What long stages of the library say of themselves: from nothing to all of it, and never less than before."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rlft.config import RewardConfig, SourceConfig
from rlft.engines.transformers_engine import TransformersEngine
from rlft.harness.rollout import PolicyPlayer, SamplingSettings, collect_rollouts
from rlft.progress import Meter
from rlft.rewards.scoring import score_rollouts
from rlft.tasks import read_tasks
from rlft.training.trainer import Round, prepare_optimizer, train_round
from tests.factories import FirstCharacter, make_policy, make_scored, make_task, make_training
from tests.rlft.attempts import audited

TASKS = [make_task(f"t{i}", prompt=f"{i}+0=", answer=str(i)) for i in range(4)]


class Heard:
    """Keeps what it is told, as (done, total) by part in their order."""

    def __init__(self):
        self.parts, self.tokens, self.losses = [], [], []

    def __call__(self, done, total, what, *, tokens=None, loss=None):
        if not self.parts or self.parts[-1][0] != what or self.parts[-1][1][-1][0] > done:
            self.parts.append((what, []))
        self.parts[-1][1].append((done, total))
        self.tokens.append(tokens)
        self.losses.append(loss)

    def ends(self):
        """Each part with how it began and ended."""
        return [(what, *said[0], *said[-1]) for what, said in self.parts]


AUDITED = ["conversations", "scores"] * 2
"""The first kinds on all tasks, then all kinds on fewer."""


@pytest.fixture
def heard():
    return Heard()


def test_scores(heard):
    rollouts, _ = make_scored({"t0": [1.0, 0.0], "t1": [0.0]})
    by_id = {task.id: task for task in TASKS}
    score_rollouts(rollouts, by_id, FirstCharacter(), RewardConfig(timeout_seconds=10), progress=heard)
    assert heard.parts == [("scores", [(0, 3), (1, 3), (2, 3), (3, 3)])]


def test_the_audit_plays_and_scores(heard):
    report = audited(TASKS, FirstCharacter(), timeout_seconds=10, progress=heard)
    assert [part[0] for part in heard.parts] == AUDITED
    for _, begun, total, ended, same in heard.ends():
        assert (begun, ended, total) == (0, same, same)
    played = sum(total for what, _, total, _, _ in heard.ends() if what == "conversations")
    assert played >= sum(scores.count for scores in report.attacks.values())


def test_tasks_from_a_file(heard, tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"{i}+{i}=", "answer": str(2 * i)}) + "\n" for i in range(20)))
    read_tasks(SourceConfig(source="jsonl", path=str(path)), environment="e", progress=heard)
    assert heard.ends() == [("rows", 0, None, 20, None), ("tasks", 0, 20, 20, 20)]


def collect(policy, heard, environment=None, **options):
    engine = TransformersEngine(**options)
    engine.load_policy(policy)
    settings = {"num_generations": 3, "round": 0, "label": "train"}
    environment = environment or FirstCharacter()
    sampling = SamplingSettings(temperature=1.0, max_completion_length=4, seed=0)
    return collect_rollouts(TASKS, environment, PolicyPlayer(policy, engine), sampling, progress=heard, **settings)


def test_rollouts_of_one_turn_count_while_they_are_sampled(heard):
    rollouts = collect(make_policy(), heard, batch_size=4)  # 12 rollouts in three calls of the model's loop
    ((what, said),) = heard.parts
    assert what == "rollouts"
    assert (said[0], said[-1]) == ((0, 12), (12, 12))
    assert len(said) > 6, "not only between batches"
    assert heard.tokens[-1] == sum(int(rollout.loss_mask.sum()) for rollout in rollouts)
    assert heard.tokens == sorted(heard.tokens)


class Persists(FirstCharacter):
    """Asks once more."""

    max_turns = 2

    async def respond(self, rollout_id, completion):
        return "1+1="


def test_rollouts_of_more_turns_count_when_they_are_over(heard):
    policy = make_policy(sharpness=0.0)  # any token, so that some turns end
    rollouts = collect(policy, heard, Persists())
    ((what, said),) = heard.parts
    assert what == "rollouts"
    assert (said[0], said[-1]) == ((0, 12), (12, 12))
    assert all(done == int(done) for done, _ in said)
    assert heard.tokens[-1] == sum(int(rollout.loss_mask.sum()) for rollout in rollouts)


@pytest.mark.slow
@pytest.mark.parametrize("iterations", [1, 2])
def test_a_round_of_training(heard, iterations):
    policy = make_policy()
    rollouts, rewards = make_scored({"t0": [1.0, 0.0, 0.0, 1.0], "t1": [0.0, 1.0, 0.0, 0.0], "t2": [1.0] * 4})
    training = make_training(updates_per_round=2, num_iterations=iterations, max_kl=100)
    prepare_optimizer(policy, training, None)
    given = Round(number=0, temperature=1.0, max_completion_length=4)
    report = train_round(policy, rollouts, rewards, training, given, progress=heard)
    assert report.updates == 2 * iterations
    # t2 teaches nothing; the eight others are dealt out to two updates, each time over
    assert heard.ends() == [("rollouts", 0, 8 * iterations, 8 * iterations, 8 * iterations)]
    assert heard.tokens[-1] == 16 * iterations  # two tokens each


def test_a_meter_counts_in_many_threads(heard):
    meter, at_once = Meter(heard, 800, "things"), threading.Barrier(8)

    def work():
        at_once.wait()
        for _ in range(100):
            meter.add(tokens=2)

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work) for _ in range(8)]:
            done.result()
    assert heard.parts == [("things", [(n, 800) for n in range(801)])]
    assert heard.tokens[-1] == 1600
