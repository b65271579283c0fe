"""A step started cold, in a process that shares only the artifact store, gives the same bytes as the warm one did."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]


def test_each_step_gives_the_same_bytes_started_cold(finished):
    home, result = finished
    cold = home.query(f"""
from rlft.types import storage
from rlft.harness.rollout import SamplingSettings
from rlft.tasks.curriculum import Selection
from steps.round import generate_rollouts
from steps.policies import initialize_policy
from steps.round import score_rewards
from rlft.training.job import Round
from steps.round import train_grpo
from steps.policies import warm_start_policy
from rlft.config.file import load_config
from pipelines.stages import Stages
from tests.e2e.conftest import TINY

run = client.get_pipeline_run("{result.summary["pipeline_run_id"]}")
steps = run.steps
def out(step, name):
    return steps[step].outputs[name][0]

config = load_config(TINY)
prints = Stages.of(config).fingerprints
tasks = out("ingest_tasks", "tasks").load()
found = {{}}
base, _ = initialize_policy.entrypoint(
    tasks, config.policy, config.environment, config.rollout.max_completion_length,
    config.rollout.engine_settings(), config.harness, config.seed)
found["initialize_policy"] = [base.metadata.content_hash, out("initialize_policy", "policy").content_hash]
start, _ = warm_start_policy.entrypoint(
    out("initialize_policy", "policy").load(), tasks, config.warm_start, config.environment, "", "auto", config.seed)
found["warm_start"] = [start.metadata.content_hash, out("warm_start", "policy").content_hash]
sampling = SamplingSettings(temperature=1.0, max_completion_length=4, batch_size=256, seed=0)
selection = Selection(label="train", num_generations=4, round=0, count=8)
rollouts = generate_rollouts.entrypoint(
    tasks, out("warm_start", "policy").load(), selection, sampling, config.environment, prints.harness, "auto")
found["generate_rollouts"] = [storage.hash_rows(rollouts.rows, storage.ROLLOUT_SCHEMA),
    out("generate_rollouts_r000", "rollouts").content_hash]
rewards = score_rewards.entrypoint(tasks, rollouts, config.environment, config.reward, "")
found["score_rewards"] = [storage.hash_rows(
        rewards.rows, storage.REWARD_SCHEMA, repr(sorted(rewards.weights.items())),
        repr(sorted(rewards.ranges.items()))),
    out("score_rewards_r000", "rewards").content_hash]
warm = out("warm_start", "policy").load()
policy, _ = train_grpo.entrypoint(warm, warm, rollouts, rewards, config.training, "",
    Round(number=0, temperature=1.0, max_completion_length=4), "auto")
found["train_grpo"] = [policy.metadata.content_hash, out("train_grpo_r000", "policy").content_hash]
print(json.dumps(found))
""")
    assert set(cold) == {"initialize_policy", "warm_start", "generate_rollouts", "score_rewards", "train_grpo"}
    for step, (mine, stored) in cold.items():
        assert mine == stored, step
