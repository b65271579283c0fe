"""Within a round: the draw of its tasks, its attempts and their scores, the pass rates, and the update."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlops.ids import DRAW, PASS_RATES, REWARDS, ROLLOUTS, TRAIN_REPORT, UNUSED, round_name
from mlops.runtime.runtime import shared_runtime
from pipelines.stages.calls import Artifact, Calls, Scored
from rlft.curriculum.draw import is_plain
from rlft.errors import WeightsRemovedError
from rlft.rollout import Selection
from rlft.training.chosen_loss import loss_fingerprint
from rlft.workers.interpreter import shared_evenly
from steps.collect_pass_rates import collect_pass_rates
from steps.draw_tasks import draw_tasks
from steps.generate_groups import generate_groups
from steps.note_pass_rates import note_pass_rates
from steps.report_unused import report_unused
from steps.score_rewards import score_rewards
from steps.train_grpo import train_grpo

logger = logging.getLogger(__name__)
_LOOKS_EVERY = 0.05  # seconds between looks whether a step that trains has begun, or ended without that


@dataclass(frozen=True, slots=True)
class Training(Calls):
    """The stages of a round of training."""

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
        return self._attempt(policy, tasks, selection, self.sampling(rollout.temperature), round_name(round))

    def collect_rates(self, tasks: Artifact, start: Artifact) -> tuple[Artifact, Artifact]:
        """Find the pass rates of earlier runs; returns them, and the rates of this run, which are empty yet."""
        config, prints = self.config, self.fingerprints
        with self.show("pass rates"):
            return collect_pass_rates(
                tasks,
                start,
                config.tracking.experiment or config.name,
                prints.harness,
                config.reward,
                prints.reward,
                config.training.pass_rates.earlier_runs,
            )

    def draw(self, tasks: Artifact, round: int, rates: Artifact | None, kept: Artifact | None) -> Artifact:
        """Draw the tasks of a round, and those that may replace them."""
        name, known = round_name(round), {} if rates is None else {"rates": rates, "kept": kept}
        with self.show(f"draw {name}"):
            training = self.config.training.without_lag()
            return draw_tasks(tasks, training, round, self.config.seed, id=DRAW.step_id(name), **known)

    def sample_draw(self, policy: Artifact, tasks: Artifact, draw: Artifact, round: int) -> Scored:
        """Sample and score groups of attempts at the tasks of a draw, and replace those without variance."""
        config, prints, name = self.config, self.fingerprints, round_name(round)
        with self.show(f"rollouts {name}", "sampling"):
            rollouts, known = generate_groups(
                tasks,
                policy,
                draw,
                config.training.num_generations,
                config.training.max_num_gen_batches,
                self.sampling(config.rollout.temperature),
                config.environment,
                prints.harness,
                config.reward,
                prints.reward,
                config.policy.device,
                id=ROLLOUTS.step_id(name),
            )
        with self.show(f"scores {name}"):
            settings = config.environment, config.reward, prints.reward
            rewards = score_rewards(tasks, rollouts, *settings, known=known, id=REWARDS.step_id(name))
        return Scored(rollouts, rewards, draw)

    def note_rates(self, rates: Artifact, kept: Artifact, scored: Scored, round: int) -> Artifact:
        """Bring the pass rates up to date after a round."""
        name = round_name(round)
        with self.show(f"pass rates {name}"):
            settings = self.config.training.pass_rates
            return note_pass_rates(rates, kept, scored.rewards, settings, round, id=PASS_RATES.step_id(name))

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
            # threads at once (`rlft.syntax`): so nothing else is started meanwhile.
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
            config.rollout.temperature,
            config.rollout.max_completion_length,
            round,
            config.policy.device,
        )
        # A cache does not ask where work was done, nor how long it was waited for: the process lends that to the step.
        division = None if config.distributed is None else config.distributed.division()
        extra = {"draw": scored.draw, "distributed": division, "age": scored.age or None}
        named = {name: value for name, value in extra.items() if value is not None}
        return given, {**named, "id": TRAIN_REPORT.step_id(round_name(round))}

    def report_unused(self, scored: Scored, round: int) -> Artifact:
        """Report the rollouts of a round that was sampled, and is not trained on as training has ended."""
        name = round_name(round)
        with self.show(f"attempts {name}, which are not used"):
            return report_unused(scored.rollouts, scored.rewards, round, scored.age, id=UNUSED.step_id(name))


def _wait_for(training: Any) -> None:
    """Wait until a step has ended; an error of its own is logged, as another one is on its way."""
    try:
        training.wait()
    except Exception as error:
        logger.warning("that round could not be trained either: %s", error)
