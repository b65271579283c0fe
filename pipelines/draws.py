"""How the rounds of a run get their tasks: by epochs, or drawn by pass rates that follow from round to round."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pipelines.stages import Artifact, Scored, Stages


@dataclass
class Draws:
    """Samples one round after the other. `kept` and `rates` are `None` where no pass rates are needed."""

    stages: Stages
    tasks: Artifact
    kept: Artifact | None = None
    rates: Artifact | None = None

    @classmethod
    def begin(cls, stages: Stages, tasks: Artifact, start: Artifact) -> Draws:
        """Begin with the pass rates that earlier runs have left, where tasks are drawn by them."""
        if not stages.draws or stages.config.training.curriculum == "uniform":
            return cls(stages, tasks)
        return cls(stages, tasks, *stages.collect_rates(tasks, start))

    def sample(self, policy: Artifact, number: int, age: int = 0) -> Scored:
        """Sample and score a round; the next one is drawn by what has come of it.

        `age` is how many rounds of training the policy will be behind the one that is trained on them; attempts that
        are stored know it themselves.
        """
        sampled = self._sample(policy, number)
        return replace(sampled, age=age or sampled.age)

    def _sample(self, policy: Artifact, number: int) -> Scored:
        if not self.stages.draws:
            return self.stages.sample_round(policy, self.tasks, number)
        draw = self.stages.draw(self.tasks, number, self.rates, self.kept)
        scored = self.stages.sample_draw(policy, self.tasks, draw, number)
        if self.rates is not None:
            self.rates = self.stages.note_rates(self.rates, self.kept, scored, number)
        return scored
