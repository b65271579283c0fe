"""The sections of the summary of a run; every key is described at its field."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from rlft.types import Effect

Metrics = dict[str, float]


class Section(BaseModel):
    """A part of the summary. What is assigned is checked; keys that another version wrote are left out."""

    model_config = ConfigDict(validate_assignment=True)


class Difference(Section):
    """One policy minus another on `test`, over the tasks that were scored for both."""

    metric: str = Field(description="The metric that is compared, such as `accuracy`.")
    before: float = Field(description="Mean of the other policy.")
    after: float = Field(description="Mean of the trained policy.")
    mean: float = Field(description="Mean of after minus before.")
    ci_low: float = Field(description="Lower end of the 95 % interval, over groups of tasks.")
    ci_high: float = Field(description="Upper end of the same interval.")
    tasks: int = Field(description="How many tasks were scored for both.")
    groups: int = Field(default=0, description="How many groups these tasks are of (`tasks.group`).")
    errors: int = Field(
        default=0, description="How many rollouts of both have no score, on tasks that have one for either of them."
    )
    ci_low_errors: float | None = Field(
        default=None,
        description="The lower end that remains if the trained policy's errors count as the lowest score and the "
        "other's as the highest. The status rests on the lower of both ends.",
    )
    ci_high_errors: float | None = Field(
        default=None,
        description="The upper end that remains if the trained policy's errors count as the highest score and the "
        "other's as the lowest. A control is said to be better only if the higher of both ends is below zero.",
    )
    declared: bool | None = Field(
        default=None,
        description="Whether the range of the score is known, as that of a share is. Where it is not, the interval "
        "knows nothing of rare large losses that did not occur.",
    )
    without_score: list[str] = Field(default=[], description="Ids of tasks that no rollout of either has a score for.")

    @property
    def low(self) -> float:
        """The lower end on which verdicts rest: errors count against the trained model, too."""
        return self.ci_low if self.ci_low_errors is None else min(self.ci_low, self.ci_low_errors)

    @property
    def high(self) -> float:
        """The upper end on which verdicts rest: errors count in favour of the trained model, too."""
        return self.ci_high if self.ci_high_errors is None else max(self.ci_high, self.ci_high_errors)

    @property
    def is_above_zero(self) -> bool:
        """Whether the whole interval is above zero."""
        return self.low > 0

    @property
    def is_below_zero(self) -> bool:
        """Whether the whole interval is below zero."""
        return self.high < 0


class Change(Section):
    """A mean difference with its 95 % interval over groups of tasks."""

    mean: float = Field(description="Mean of trained minus start.")
    ci_low: float = Field(description="Lower end, with attempts without a score counted against the trained model.")
    ci_high: float = Field(description="Upper end, with such attempts counted in its favour.")


class Mean(Section):
    """A mean with its 95 % interval over groups of tasks."""

    mean: float = Field(description="Mean over the tasks that have a score.")
    ci_low: float = Field(description="Lower end of the interval.")
    ci_high: float = Field(description="Upper end of the interval.")
    tasks: int = Field(description="How many tasks these are.")


class SeveralAttempts(Section):
    """The chance that at least one of k attempts at a task of `test` is solved, for k = 1 to n."""

    start: list[float] = Field(description="Of the model that training started from, for k = 1, 2, ...")
    trained: list[float] = Field(description="Of the trained model, for the same k.")
    difference_at_1: Change = Field(description="Trained minus start at one attempt.")
    difference_at_n: Change = Field(description="Trained minus start at n attempts.")
    tasks: int = Field(description="How many tasks were attempted.")
    errors: int = Field(description="How many attempts have no score. The curves count them as unsolved.")
    effect: Effect = Field(
        description="`widened`: the interval at n attempts is above zero, and the trained model solves more in n than "
        "the start can in eight times as many. `ahead`: it is above zero, but with eight times as many the start may "
        "solve as much. `lost`: it is below. `sharpened`: neither, but that at one attempt is above zero. `open`: the "
        "intervals show none of these."
    )


class AlarmSection(Section):
    """What a monitor has seen while the run trained, the first time."""

    monitor: str = Field(description="Name of the monitor, as in the section `monitors` of the config.")
    action: str = Field(description="What was done: `note`, `warn` or `stop`.")
    rounds: int = Field(description="After how many rounds it was seen.")
    what: str = Field(description="What was seen, with its numbers.")
    remedy: str = Field(description="What to do about it.")


class ControlCost(Section):
    """What a control was made from, and what that took."""

    demonstrations: int = Field(description="How many answers it imitates, or has in its prompt.")
    flops: float | None = Field(
        description="FLOPs that it took, search and validation included; null for a model behind an address, of which "
        "nobody knows them."
    )
    budget: float | None = Field(
        description="FLOPs that it was given: those of the rounds and of their validations; null where `flops` is."
    )
    seconds: float = Field(description="Wall seconds that it took, or had taken if it came from the cache.")
    prompt_tokens: int | None = Field(
        default=None,
        description="Tokens that a model behind an address has read while its prompt was chosen, as its endpoint "
        "reports them; null where none does.",
    )
    completion_tokens: int | None = Field(default=None, description="Tokens that it has written meanwhile.")
    answers: Literal["", "gold", "bare", "demonstration", "file"] = Field(
        default="",
        description="What `sft` imitates, as did best in validation: `gold` answers, the environment's "
        "`demonstration`s, or the rows of `warm_start.path` alone (`file`). `bare` are gold answers that are all there "
        "is to imitate, and less than a quarter as long as the model's attempts before training.",
    )
    answer_tokens: float | None = Field(default=None, description="Mean length of these answers in tokens.")
    attempt_tokens: float | None = Field(
        default=None, description="Mean length of the attempts of the first round, before training, in tokens."
    )


class Contamination(Section):
    """How many tasks of a split are not new to the trained model, and its score without them."""

    tasks: int = Field(description="How many tasks the split has.")
    exact: int = Field(description="How many of them have the prompt of a train task or a demonstration.")
    overlapping: int = Field(description="How many others share 13 words of prose in a row with one.")
    clean: Mean | None = Field(
        default=None,
        description="The trained model's mean score in `evaluation.metric` on the other tasks; null without any.",
    )
    clean_difference: Change | None = Field(
        default=None, description="The trained model minus the model that training started from, on these tasks."
    )
    sentence: str = Field(description="The same in words.")


class TextChange(Section):
    """How many bits per byte of a text that has nothing to do with the task a model needs: fewer are better."""

    before: float = Field(description="Of the base model.")
    warm_start: float | None = Field(default=None, description="Of the model after the warm start, if there is one.")
    after: float = Field(description="Of the trained model.")
    mean: float = Field(description="Mean of after minus before over the paragraphs: above 0 is a cost.")
    ci_low: float = Field(
        description="Lower end of its interval; those of all texts hold together in 95 % where paragraphs change alike."
    )
    ci_high: float = Field(description="Upper end of the same interval.")
    verdict: Literal["cost", "kept", "open"] = Field(
        description="`cost`: the whole interval lies above `evaluation.forgetting_margin`. `kept`: it lies below, "
        "which speaks of these paragraphs. `open`: neither."
    )


class Baseline(Section):
    """What was measured before training; its metrics stand beside these keys."""

    model_config = ConfigDict(extra="allow")

    verdict: Literal["trainable", "too_hard", "already_solved"] = Field(description="Whether training can help.")
    advice: str = Field(description="What the measurements mean, and what to do, in sentences.")
    frac_tasks_with_variance: float = Field(
        description="Share of tasks, from 0 to 1, whose attempts did not all earn the same reward."
    )


class Ledger(Section):
    """How many rollouts all rounds of training have sampled, and what became of them.

    `sampled` = `trained` + `filtered` + `errored`.
    """

    sampled: int = Field(default=0, description="Number of rollouts that were sampled for training.")
    trained: int = Field(default=0, description="Number of rollouts that were trained on.")
    filtered: int = Field(
        default=0,
        description="Number of rollouts that were left out: the attempts at their task did not differ in reward, they "
        "were cut off (`training.mask_truncated_completions`), their round was undone, or training had ended when they "
        "had been sampled ahead (`training.lag`).",
    )
    errored: int = Field(
        default=0, description="Number of rollouts that were left out because they or their score failed."
    )
    ages: dict[str, int] = Field(
        default={},
        description="Number of rollouts of the rounds that were trained, by how many rounds of training the policy "
        "that sampled them was behind the one that was trained on them: `0`, or `1` with `training.lag: 1`.",
    )


class JudgeCost(Section):
    """What judges were asked for scores, and what that took, as their endpoints tell it."""

    calls: int = Field(default=0, description="Number of votes that a judge was asked for.")
    retries: int = Field(default=0, description="Number of requests beside the first one of a call.")
    failed: int = Field(default=0, description="Number of calls that got no answer; no money is claimed for them.")
    cached: int = Field(default=0, description="Number of votes that were known already, and not asked for.")
    prompt_tokens: int = Field(default=0, description="Tokens that judges have read.")
    completion_tokens: int = Field(default=0, description="Tokens that judges have written.")
    untold: int = Field(default=0, description="Number of answered calls whose tokens the endpoint did not tell.")
    money: float | None = Field(
        default=None,
        description="The price of these tokens, in the currency of `judge.prices`; null where a price or the tokens of "
        "an answer are not known.",
    )
    seconds: float = Field(default=0.0, description="Seconds of all calls, of which several go on side by side.")


class DynamicSampling(Section):
    """What groups without variance have cost in a run that replaces them (`training.max_num_gen_batches` above 1).

    Their rollouts are among those that the ledger has as `filtered`, and their tokens count in budgets and costs.
    """

    resampled_groups: int = Field(default=0, description="Number of groups that were sampled in place of others.")
    thrown_groups: int = Field(
        default=0, description="Number of groups without variance, with those that the bound left without replacement."
    )
    thrown_rollouts: int = Field(default=0, description="Number of rollouts in these groups.")
    thrown_tokens: int = Field(default=0, description="Number of tokens that were sampled for them.")


class Promotion(Section):
    """What happened in the registry."""

    promoted: bool = Field(default=False, description="Whether the trained model became the champion.")
    name: str | None = Field(default=None, description="Name of the registered model.")
    version: str | None = Field(default=None, description="Its version; null if nothing was registered.")
    alias: Literal["champion", "challenger"] | None = Field(
        default=None, description="The alias of the version; a champion is the challenger, too."
    )
    approval: Literal["pending", "approved", "rejected"] | None = Field(
        default=None,
        description="What a person had decided about it (`rlft approve`, `rlft reject`) when this was written; null "
        "where nobody is to decide.",
    )
    reasons: list[str] = Field(default=[], description="Why it was promoted or not, in sentences.")
    look: int | None = Field(
        default=None, description="The number of this decision among those on the same gate; null without a decision."
    )
    looks: int | None = Field(default=None, description="How many decisions a gate may see (`promotion.looks`).")


class Seconds(Section):
    """Wall seconds by stage.

    If a result came from the cache, `warm_start`, `rollout`, `score` and `train` are those of the run that did the
    work; the others are always this run's own.
    """

    setup: float = Field(default=0.0, description="Reading tasks, the reward audit and making the base model.")
    warm_start: float = Field(default=0.0, description="Training of the warm start.")
    rollout: float = Field(default=0.0, description="Sampling in all rounds.")
    score: float = Field(default=0.0, description="Scoring in all rounds.")
    train: float = Field(default=0.0, description="Updates in all rounds.")
    evaluate: float = Field(default=0.0, description="Final evaluation of all arms, and training of the controls.")
    rounds: float = Field(default=0.0, description="All rounds, with validation, storage and orchestration.")
    total: float = Field(default=0.0, description="The whole run, from the moment its record in MLflow was opened.")
