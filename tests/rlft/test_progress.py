"""What long stages of the library say of themselves: from nothing to all of it, and never less than before."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rlft.audit.environment import check_environment
from rlft.audit.rewards import audit_reward
from rlft.config import SourceConfig, TasksConfig, WarmStartConfig
from rlft.contract.base import BaseEnv
from rlft.engines.base import Sampling
from rlft.engines.transformers_engine import TransformersEngine
from rlft.engines.vllm_engine import reporting_bar
from rlft.harness.sampled import Headway
from rlft.policy.tokens import check_prompts
from rlft.progress import Meter
from rlft.rewards.scoring import score_rollouts
from rlft.rollout import PolicyPlayer, collect_rollouts
from rlft.tasks import ingest_tasks, read_tasks
from rlft.training.imitation import run_sft
from rlft.training.trainer import prepare_optimizer, train_round
from tests.factories import FirstCharacter, make_policy, make_scored, make_task, make_training

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


AUDITED = ["conversations", "scores", "conversations", "scores", "scores"]
"""The first kinds, all kinds on fewer tasks, and some once more in another order."""


@pytest.fixture
def heard():
    return Heard()


def test_scores(heard):
    rollouts, _ = make_scored({"t0": [1.0, 0.0], "t1": [0.0]})
    by_id = {task.id: task for task in TASKS}
    score_rollouts(rollouts, by_id, FirstCharacter(), weights={}, full=None, timeout_seconds=10, progress=heard)
    assert heard.parts == [("scores", [(0, 3), (1, 3), (2, 3), (3, 3)])]


def test_the_audit_plays_and_scores(heard):
    report = audit_reward(TASKS, FirstCharacter(), weights={}, full=None, timeout_seconds=10, progress=heard)
    assert [part[0] for part in heard.parts] == AUDITED
    for _, begun, total, ended, same in heard.ends():
        assert (begun, ended, total) == (0, same, same)
    played = sum(total for what, _, total, _, _ in heard.ends() if what == "conversations")
    assert played >= sum(scores.count for scores in report.attacks.values())


def test_the_check_plays_twice_scores_twice_and_audits(heard):
    check_environment(FirstCharacter(), TASKS, progress=heard)
    played, scored = [8, 8], [8, 8]  # gold and silence of four tasks
    totals = [(what, total) for what, _, total, ended, _ in heard.ends() if ended == total]
    assert totals[:4] == [*(("conversations", n) for n in played), *(("scores", n) for n in scored)]
    assert [what for what, _ in totals[4:]] == AUDITED


def test_tasks_from_a_file(heard, tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"{i}+{i}=", "answer": str(2 * i)}) + "\n" for i in range(20)))
    read_tasks(SourceConfig(source="jsonl", path=str(path)), environment="e", progress=heard)
    assert heard.ends() == [("rows", 0, None, 20, None), ("tasks", 0, 20, 20, 20)]


def test_tasks_from_a_generator(heard):
    splits = {"train": 6, "validation": 2, "gate": 2, "test": 2}
    kwargs = {"min_terms": 2, "max_terms": 2, "min_digits": 2, "max_digits": 2}
    config = TasksConfig(source="reasoning_gym", generator="chain_sum", generator_kwargs=kwargs, splits=splits)
    ingest_tasks(config, environment="e", seed=0, progress=heard)
    assert heard.parts == [("tasks", [(n, 12) for n in range(13)])]


def test_prompts(heard):
    policy = make_policy()
    prompts = [(task.id, task.prompt) for task in TASKS]
    check_prompts(policy.tokenizer, prompts, max_completion_length=4, context_length=64, progress=heard)
    assert heard.ends() == [("prompts", 0, 4, 4, 4)]


def collect(policy, heard, environment=None, **options):
    engine = TransformersEngine(**options)
    engine.load_policy(policy)
    settings = {"num_generations": 3, "round": 0, "seed": 0, "label": "train"}
    environment = environment or FirstCharacter()
    return collect_rollouts(
        TASKS, environment, PolicyPlayer(policy, engine), Sampling(1.0, 4), progress=heard, **settings
    )


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


def test_headway_of_turns():
    heard = Heard()
    headway = Headway(heard, 3, multi_turn=False)
    headway.of_call(1.5, 3, "completions", tokens=6)
    headway.tokens += 12
    headway.note(1)  # the others' tools are still at work: what was said is not taken back
    headway.note(3)
    assert heard.parts == [("rollouts", [(0, 3), (1.5, 3), (1.5, 3), (3, 3)])]
    assert heard.tokens == [0, 6, 12, 12]


@pytest.mark.slow
@pytest.mark.parametrize("iterations", [1, 2])
def test_a_round_of_training(heard, iterations):
    policy = make_policy()
    rollouts, rewards = make_scored({"t0": [1.0, 0.0, 0.0, 1.0], "t1": [0.0, 1.0, 0.0, 0.0], "t2": [1.0] * 4})
    training = make_training(updates_per_round=2, num_iterations=iterations, max_kl=100)
    prepare_optimizer(policy, training, None)
    options = {"round": 0, "temperature": 1.0, "max_completion_length": 4}
    report = train_round(policy, rollouts, rewards, training, progress=heard, **options)
    assert report.updates == 2 * iterations
    # t2 teaches nothing; the eight others are dealt out to two updates, each time over
    assert heard.ends() == [("rollouts", 0, 8 * iterations, 8 * iterations, 8 * iterations)]
    assert heard.tokens[-1] == 16 * iterations  # two tokens each


def test_supervised_training_counts_what_bounds_it(heard):
    settings = WarmStartConfig(steps=3, batch_size=2)
    report = run_sft(make_policy(), settings, TASKS, BaseEnv(), seed=0, progress=heard)
    played, encoded, trained = heard.ends()
    assert played == ("conversations", 0, 4, 4, 4)
    assert encoded == ("demonstrations", 0, 4, 4, 4)
    assert trained == ("steps", 0, 3, 3, 3)
    assert heard.losses[-4:] == [None, *report.losses]
    seconds = Heard()
    run_sft(make_policy(), settings, TASKS, BaseEnv(), seed=0, seconds=0.05, progress=seconds)
    (what, begun, total, ended, _) = seconds.ends()[-1]
    assert (what, total) == ("s", 0.05)
    assert 0 <= begun < ended
    assert ended >= 0.05


def test_what_vllm_tells_its_bar(heard, capsys):
    bar = reporting_bar(heard)
    assert [*bar(["a", "b"], desc="Adding requests")] == ["a", "b"]
    counting = bar(total=3, desc="Processed prompts", dynamic_ncols=True, postfix="est. speed")
    for _ in range(3):
        assert counting.format_dict["elapsed"] >= 0
        counting.postfix = "est. speed"
        counting.update(1)
    counting.refresh()
    counting.close()
    assert heard.parts == [("completions", [(0, 3), (1, 3), (2, 3), (3, 3)])]
    assert capsys.readouterr() == ("", "")


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
