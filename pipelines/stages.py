"""Calls every step with the settings of a config, so that the body of `train` reads as the sequence of stages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from mlops.ids import DRAW, PASS_RATES, REWARDS, ROLLOUTS, TRAIN_REPORT, UNUSED, round_name, step_id
from mlops.runs.runtime import pipeline_environment, shared_runtime
from pipelines.showing import Show, telling_memory, unshown
from rlft.config import Config, EnvironmentConfig, PolicyConfig, RewardConfig
from rlft.config.environment import unscored
from rlft.environments.fingerprints import EnvironmentFingerprints, environment_fingerprints
from rlft.environments.workers.threads import shared_evenly
from rlft.errors import WeightsRemovedError
from rlft.evaluation.evaluate import compared_by
from rlft.evaluation.searches.validator import Validation
from rlft.harness.attempt import Examples
from rlft.harness.rollout import SamplingSettings
from rlft.progress import Progress
from rlft.tasks.curriculum import Selection, is_plain
from rlft.training.chosen_loss import loss_fingerprint
from rlft.training.demonstrations import can_demonstrate
from rlft.training.groups import Groups
from rlft.training.imitation import Memory
from rlft.training.job import Round
from rlft.types import Evaluation, Split, TaskSet
from steps.arms import evaluate_constant
from steps.evaluation import evaluate_policy
from steps.policies import ask_model, initialize_policy, warm_start_policy
from steps.round import (
    draw_tasks,
    generate_groups,
    generate_rollouts,
    note_pass_rates,
    report_unused,
    score_rewards,
    train_grpo,
)
from steps.tasks import audit_rewards, ingest_tasks, leave_out_tasks

logger = logging.getLogger(__name__)
_LOOKS_EVERY = 0.05  # seconds between looks whether a step that trains has begun, or ended without that
STAGE_STEPS = [
    ingest_tasks,
    audit_rewards,
    initialize_policy,
    ask_model,
    leave_out_tasks,
    warm_start_policy,
    draw_tasks,
    generate_groups,
    note_pass_rates,
    generate_rollouts,
    score_rewards,
    evaluate_policy,
    evaluate_constant,
    train_grpo,
    report_unused,
]
Artifact = Any  # an output of a ZenML step; `.load()` gives the value


@dataclass(frozen=True, slots=True)
class Scored:
    """Holds the artifacts of one sampling: rollouts, and their rewards, and the `draw` of its tasks if there is one.

    `age` is how many rounds of training the policy that sampled them is behind the one that is trained on them.
    """

    rollouts: Artifact
    rewards: Artifact
    draw: Artifact | None = None
    age: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """Says where tasks are attempted and scored: an environment with its code's fingerprints, a reward, a device."""

    environment: EnvironmentConfig
    reward: RewardConfig
    fingerprints: EnvironmentFingerprints
    device: str
    show: Show = unshown


def attempt(
    place: Place,
    tasks: Artifact,
    policy: Artifact,
    selection: Selection,
    sampling: SamplingSettings,
    name: str,
    *,
    fresh: bool = False,
) -> Scored:
    """Sample attempts at tasks and score them, by two steps whose ids end in `name`; a `fresh` one from no cache."""
    sample = generate_rollouts.with_options(enable_cache=False) if fresh else generate_rollouts
    with place.show(f"rollouts {name}", "sampling"):
        rollouts = sample(
            tasks,
            policy,
            selection,
            sampling,
            unscored(place.environment),
            place.fingerprints.harness,
            place.device,
            id=ROLLOUTS.step_id(name),
        )
    return Scored(rollouts, score(place, tasks, rollouts, name))


def score(place: Place, tasks: Artifact, rollouts: Artifact, name: str, **known: Artifact) -> Artifact:
    """Score attempts; `known` are their rewards where they were scored before."""
    prints, id = place.fingerprints, REWARDS.step_id(name)
    with place.show(f"scores {name}"):
        return score_rewards(tasks, rollouts, place.environment, place.reward, prints.reward, id=id, **known)


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages of one experiment, as methods that call a step and return its artifacts.

    A step that a run calls several times has an id of its own at each call, such as `train_grpo_r007`. Every call is
    shown by `show` while it goes on.
    """

    config: Config
    fingerprints: EnvironmentFingerprints
    show: Show = unshown

    @classmethod
    def of(cls, config: Config, display: Callable[[str], AbstractContextManager[Progress]] = unshown) -> Stages:
        """Make the stages of a config, shown by `display`. Loads the environment to compute its fingerprints."""
        show = telling_memory(config, display)
        with show("environment"):
            environment = pipeline_environment(config.environment)
            prints = environment_fingerprints(environment, config.environment.name, config.environment.kwargs)
        return cls(config, prints, show)

    @property
    def place(self) -> Place:
        """Where the run's tasks are attempted and scored."""
        config = self.config
        return Place(config.environment, config.reward, self.fingerprints, config.policy.device, self.show)

    def comparing(self, baseline: Evaluation) -> Stages:
        """Return the stages with the metric that policies are compared by, as the baseline shows if that is open."""
        metric = compared_by(self.config.evaluation.metric, baseline.splits["validation"])
        return replace(self, config=self.config.comparing(metric))

    def ingest(self, tracking_uri: str) -> Artifact:
        """Read the tasks of all splits; those from use from the MLflow at this address."""
        config = self.config
        with self.show("tasks"):
            if config.tasks.use is None:
                return ingest_tasks(config.tasks, config.environment.name)
            return ingest_tasks(config.tasks, config.environment.name, tracking_uri, config.warm_start)

    def audit(self, tasks: Artifact) -> Artifact:
        """Attack the reward with wrong answers."""
        config = self.config
        prints = self.fingerprints.harness + self.fingerprints.reward  # gold completions are played with the tools
        with self.show("reward audit"):
            return audit_rewards(tasks, config.environment, config.reward, config.harness, prints, config.seed)

    def initialize(self, tasks: Artifact) -> tuple[Artifact, Artifact]:
        """Make the base policy; returns it, and which prompts it cannot read."""
        with self.show("policy", "model"):
            return self._initialize(tasks, self.config.policy)

    def _initialize(self, tasks: Artifact, policy: PolicyConfig, **more: Any) -> tuple[Artifact, Artifact]:
        config, limit, engine = self.config, self.config.rollout.max_completion_length, self.config.rollout
        place = (config.environment, limit, engine.engine_settings(), config.harness, config.seed)
        return initialize_policy(tasks, policy, *place, **more)

    def leave_out(self, tasks: Artifact, prompts: Artifact) -> Artifact:
        """Take out the tasks whose prompts the base policy cannot read."""
        with self.show("tasks that fit"):
            return leave_out_tasks(tasks, prompts)

    def initialize_other(self, tasks: Artifact) -> Artifact | None:
        """Make the policy of the other model that `controls` name, before training, as it might not load or answer."""
        config, other = self.config, self.config.other_model
        if other is None:
            return None
        if other.endpoint is not None:
            with self.show("other model"):
                return ask_model(tasks, other, config.environment, self.evaluation_sampling())
        named = PolicyConfig(
            model=other.model, revision=other.revision, dtype=config.policy.dtype, device=config.policy.device
        )
        with self.show("other model", "model"):
            return self._initialize(tasks, named, is_next=False, id=step_id("initialize_policy", "model_control"))[0]

    def supervise(self, policy: Artifact, tasks: Artifact) -> tuple[Artifact, Artifact]:
        """Fine-tune on demonstrations, the warm start; returns the policy and the report."""
        config = self.config
        assert config.warm_start is not None
        with self.show("warm start", "supervised"):
            return warm_start_policy(
                policy,
                tasks,
                config.warm_start,
                config.environment,
                self.fingerprints.harness + self.fingerprints.reward,
                config.policy.device,
                config.seed,
                config.harness.isolation,
                Memory.of(config.training),
                config.shares,
                id="warm_start",
            )

    def has_demonstrations(self, tasks: TaskSet) -> bool:
        """Return whether there is anything to show: rows of the warm start's file, or an answer to a train task."""
        environment = pipeline_environment(self.config.environment)
        return can_demonstrate(self.config.warm_start, tasks.split("train"), environment)

    @property
    def draws(self) -> bool:
        """Whether the tasks of a round are drawn, or groups replaced, by what attempts have earned."""
        return not is_plain(self.config.training)

    def sample_round(self, policy: Artifact, tasks: Artifact, round: int) -> Scored:
        """Sample and score groups of attempts at the train tasks of a round."""
        training, rollout = self.config.training, self.config.rollout
        selection = Selection(
            label="train",
            num_generations=training.num_generations,
            round=round,
            count=training.tasks_per_round,
            shares=self.config.shares,
        )
        sampling = self.sampling(rollout.temperature)
        return attempt(self.place, tasks, policy, selection, sampling, round_name(round))

    def draw(self, tasks: Artifact, round: int, rates: Artifact | None) -> Artifact:
        """Draw the tasks of a round, and those that may replace them."""
        name, known = round_name(round), {} if rates is None else {"rates": rates}
        with self.show(f"draw {name}"):
            training = self.config.training.without_lag()
            return draw_tasks(tasks, training, round, self.config.seed, id=DRAW.step_id(name), **known)

    def sample_draw(self, policy: Artifact, tasks: Artifact, draw: Artifact, round: int) -> Scored:
        """Sample and score groups of attempts at the tasks of a draw, and replace those without variance."""
        config, prints, name, training = self.config, self.fingerprints, round_name(round), self.config.training
        with self.show(f"rollouts {name}", "sampling"):
            rollouts, known = generate_groups(
                tasks,
                policy,
                draw,
                Groups(num_generations=training.num_generations, max_num_gen_batches=training.max_num_gen_batches),
                self.sampling(config.rollout.temperature),
                config.environment,
                prints.harness,
                config.reward,
                prints.reward,
                config.policy.device,
                id=ROLLOUTS.step_id(name),
            )
        return Scored(rollouts, score(self.place, tasks, rollouts, name, known=known), draw)

    def note_rates(self, rates: Artifact | None, scored: Scored, round: int) -> Artifact:
        """Bring the pass rates up to date after a round."""
        name, known = round_name(round), {} if rates is None else {"rates": rates}
        with self.show(f"pass rates {name}"):
            settings = self.config.training.pass_rates
            return note_pass_rates(scored.rewards, settings, round, id=PASS_RATES.step_id(name), **known)

    def train(self, policy: Artifact, reference: Artifact, scored: Scored, round: int) -> tuple[Artifact, Artifact]:
        """Train a policy on a round's rollouts; returns the next policy and the report."""
        given, named = self._training(policy, reference, scored, round)
        with self.show(f"updates {round_name(round)}", "updates"):
            return train_grpo(*given, **named)

    def train_beside(
        self, policy: Artifact, reference: Artifact, scored: Scored, round: int, sample: Callable[[], Scored]
    ) -> tuple[Artifact, Artifact, Scored]:
        """Train like `train` in a thread of its own, while `sample` samples; returns what that does, too.

        Where that fails the round is trained to its end first, so that a resumed run has it.
        """
        given, named = self._training(policy, reference, scored, round)
        read = reference if self.config.training.beta else None
        here = "distributed" not in named
        with (
            self.show(f"updates {round_name(round)}", "updates") as progress,
            shared_runtime().policies.beside(progress, read, here=here) as beside,
            shared_evenly(),
        ):
            training = train_grpo.submit(*given, **named)
            # ZenML parses the code of a step when it starts it, which CPython before 3.11.8 may fail to do in two
            # threads at once (`rlft.texts.syntax`): so nothing else is started meanwhile.
            while training.running() and not beside.has_begun.wait(_LOOKS_EVERY):
                pass
            try:
                sampled = sample()
            except Exception as error:
                beside.may_train.set()
                if isinstance(error, WeightsRemovedError):
                    raise  # both lack these weights, and the run is begun again, which trains them
                logger.warning(
                    "the next round cannot be sampled (%s); the round before it is trained to its end", error
                )
                _wait_for(training)
                raise
            finally:
                beside.may_train.set()  # nothing was sampled if it was in the cache
            outputs: Any = training.result()
        trained, report = outputs
        return trained, report, sampled

    def _training(
        self, policy: Artifact, reference: Artifact, scored: Scored, round: int
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return what `train_grpo` is given."""
        config, training = self.config, self.config.training.without_lag()
        given = (
            policy,
            reference,
            scored.rollouts,
            scored.rewards,
            training,
            loss_fingerprint(training),
            Round(
                number=round,
                temperature=config.rollout.temperature,
                max_completion_length=config.rollout.max_completion_length,
                age=scored.age,
            ),
            config.policy.device,
        )
        # A cache does not ask where work was done, nor how long it was waited for: the process lends that to the step.
        division = None if config.distributed is None else config.distributed.division()
        extra = {"draw": scored.draw, "distributed": division}
        named = {name: value for name, value in extra.items() if value is not None}
        return given, {**named, "id": TRAIN_REPORT.step_id(round_name(round))}

    def report_unused(self, scored: Scored, round: int) -> Artifact:
        """Report the rollouts of a round that was sampled, and is not trained on as training has ended."""
        name = round_name(round)
        with self.show(f"attempts {name}, which are not used"):
            return report_unused(scored.rollouts, scored.rewards, round, scored.age, id=UNUSED.step_id(name))

    def baseline(self, policy: Artifact, tasks: Artifact) -> Artifact:
        """Evaluate several attempts at validation tasks, sampled as training samples them."""
        config = self.config.baseline
        selection = Selection(
            label="baseline", num_generations=config.num_generations, count=config.num_tasks, splits=["validation"]
        )
        sampling = self.sampling(self.config.rollout.temperature)
        return self.evaluate_selected(policy, tasks, selection, sampling, "baseline")

    def evaluate(
        self, policy: Artifact, tasks: Artifact, splits: list[Split], name: str, examples: Examples | None = None
    ) -> Artifact:
        """Evaluate a policy on whole splits: every policy gets the same tasks and the same random numbers.

        It reads `examples` before each prompt.
        """
        selection = Selection(label="evaluation", num_generations=self.config.evaluation.num_generations, splits=splits)
        return self.evaluate_selected(policy, tasks, selection, self.evaluation_sampling(examples), name)

    def constant(self, tasks: Artifact, said: Sequence[str], splits: list[Split]) -> Artifact:
        """Evaluate the best constant answer on whole splits; `said` are completions that policies gave often."""
        config = self.config
        with self.show("constant answers"):
            return evaluate_constant(
                tasks,
                list(said),
                config.environment,
                config.reward,
                config.harness,
                self.fingerprints.harness + self.fingerprints.reward,
                config.evaluation.metric,
                splits,
            )

    def sampling(self, temperature: float, **more: Any) -> SamplingSettings:
        """Return how rollouts are sampled at this temperature, with `more` settings."""
        rollout = self.config.rollout
        return SamplingSettings(
            temperature=temperature,
            max_completion_length=rollout.max_completion_length,
            batch_size=rollout.batch_size,
            engine=rollout.engine_settings(),
            harness=self.config.harness,
            seed=self.config.seed,
            **more,
        )

    def evaluation_sampling(self, examples: Examples | None = None) -> SamplingSettings:
        """Return how evaluations sample; every prompt begins with `examples`."""
        config = self.config.evaluation
        cut = {"top_p": config.top_p, "top_k": config.top_k, "min_p": config.min_p}
        return self.sampling(config.temperature, **cut, examples=examples)

    def validation(self) -> Validation:
        """Return how the policies of controls are validated: as those of the rounds."""
        config = self.config
        return Validation(
            environment=config.environment,
            reward=config.reward,
            sampling=self.evaluation_sampling(),
            num_generations=config.evaluation.num_generations,
            metric=config.evaluation.metric,
            fingerprint=self.fingerprints.harness + self.fingerprints.reward,
        )

    def evaluate_selected(
        self, policy: Artifact, tasks: Artifact, selection: Selection, sampling: SamplingSettings, name: str
    ) -> Artifact:
        """Evaluate a policy by attempts at the selected tasks."""
        scored = attempt(self.place, tasks, policy, selection, sampling, name)
        with self.show(f"evaluation {name}"):
            return evaluate_policy(tasks, scored.rollouts, scored.rewards, id=step_id("evaluate_policy", name))


def _wait_for(training: Any) -> None:
    """Wait until a step has ended; an error of its own is logged, as another one is on its way."""
    try:
        training.wait()
    except Exception as error:
        logger.warning("that round could not be trained either: %s", error)
