"""What every arm of the learning benchmark works with: tasks, environment, engine, the exam, and the warm start."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from rlft.config import Config
from rlft.engines.transformers_engine import TransformersEngine
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.loading import load_environment
from rlft.environments.fingerprints import code_fingerprint
from rlft.harness.rollout import PolicyPlayer, SamplingSettings, collect_rollouts
from rlft.models import Policy, PolicyFolder
from rlft.models.folder import save_policy
from rlft.models.origin import create_policy
from rlft.rewards.scoring import score_rollouts
from rlft.tasks import ingest_tasks
from rlft.training.imitation import run_sft
from rlft.types import TaskSet

_WARM_CODE = ("rlft.models.origin", "rlft.models.folder", "rlft.tasks", "rlft.training.imitation")


@dataclass
class Bench:
    """One arm's surroundings, and its exam: before, every `evaluation.validate_every` rounds, and after the last.

    `solved` maps a round to one digit per test task, in their stored order: 1 where the greedy answer was right.
    `seconds` is what the exams took, `stopped` why training ended before the last round, if it did.
    """

    config: Config
    task_set: TaskSet
    environment: BaseEnv
    engine: TransformersEngine
    solved: dict[int, str] = field(default_factory=dict)
    seconds: float = 0.0
    stopped: str = ""

    def examine(self, policy: Policy, round: int) -> None:
        """Note the greedy answers after so many rounds, if it is time to."""
        config, started = self.config, time.perf_counter()
        if round % config.evaluation.validate_every and round != config.training.rounds:
            return
        self.engine.load_policy(policy)
        rollouts = collect_rollouts(
            self.task_set.split("test"),
            self.environment,
            PolicyPlayer(policy, self.engine),
            SamplingSettings(
                temperature=0.0,
                max_completion_length=config.rollout.max_completion_length,
                seed=config.seed,
            ),
            num_generations=1,
            round=0,
            label="exam",
        )
        rewards = score_rollouts(rollouts, self.task_set.by_id(), self.environment, config.reward)
        if errors := [reward.error for reward in rewards if reward.error]:
            raise RuntimeError(f"{len(errors)} test tasks could not be scored, the first: {errors[0]}")
        self.solved[round] = "".join(str(int(reward.solved)) for reward in rewards)
        self.seconds += time.perf_counter() - started


def make_bench(config: Config) -> Bench:
    """Tasks, environment and engine of a config."""
    environment = load_environment(config.environment.name, config.environment.kwargs)
    task_set = ingest_tasks(config.tasks, environment=config.environment.name, seed=config.tasks.seed)
    return Bench(config, task_set, environment, TransformersEngine(config.rollout.batch_size))


def _warm_folder(config: Config, output: Path) -> Path:
    """Where the warm start of this seed is kept; settings of the arms have no part in its name."""
    settings = config.model_dump(mode="json", include={"tasks", "policy", "warm_start", "environment"})
    parts = [settings, code_fingerprint(*_WARM_CODE)]
    key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:8]
    return output / "warm" / f"seed{config.seed}-{key}"


def make_warm_start(bench: Bench, output: Path) -> PolicyFolder:
    """The policy that all arms begin from: the base model after the config's warm start, if it has one.

    It is made once; the folder appears when it is whole.
    """
    folder, config = _warm_folder(bench.config, output), bench.config
    if folder.is_dir():
        return PolicyFolder(folder)
    policy = create_policy(config.policy, seed=config.seed)
    if config.warm_start is not None:
        run_sft(policy, config.warm_start, bench.task_set.split("train"), bench.environment, seed=config.seed)
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    save_policy(policy, partial, stage="warm_start" if config.warm_start else "base")
    with contextlib.suppress(OSError):  # another call was faster
        partial.rename(folder)
    shutil.rmtree(partial, ignore_errors=True)
    return PolicyFolder(folder)
