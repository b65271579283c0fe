"""The summary of a run, which people and programs rely on; every key is described at its field.

`docs/guide/summary.md` is made from it: `python -m tests.summary_page`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SkipValidation

from rlft.types import Effect
from rlft.types.formats import SUMMARY

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
    failed: int = Field(default=0, description="Number of calls that got no answer.")
    cached: int = Field(default=0, description="Number of votes that were known already, and not asked for.")
    prompt_tokens: int = Field(default=0, description="Tokens that judges have read.")
    completion_tokens: int = Field(default=0, description="Tokens that judges have written.")
    untold: int = Field(default=0, description="Number of answered calls whose tokens the endpoint did not tell.")
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


Status = Literal["running", "improved", "not_improved", "too_hard", "already_solved", "failed", "interrupted"]
EXIT_CODES: dict[Status, int] = {"improved": 0, "not_improved": 0, "failed": 1, "too_hard": 3, "already_solved": 4}
NOT_REGISTERED = 5  # the exit code of a run whose policy is evaluated and could not be registered
NOT_PROMOTED = 7  # that of `rlft promote` for a policy that does not become the champion


class Summary(Section):
    """What a run came to. Every key is there, whatever happened; what was not measured is empty or null."""

    format: int = Field(
        default=SUMMARY.version,
        description="Format version of this summary ([which is read](upgrading.md)).",
    )
    status: Status = Field(
        description="`improved`: the whole interval of `difference` is above zero, also with errors counted against "
        "the trained model (`ci_low_errors`). `not_improved`: it is not. "
        "`too_hard`, `already_solved`: the baseline showed that training could not help, so nothing was trained. "
        "`failed`: see `error`. `interrupted`: Ctrl-C, SIGTERM or a closed terminal has ended it, and `rlft resume` "
        "goes on with it. `running`: the run goes on, or was killed in a way "
        "that left no time to say so (`kill -9`); `rlft resume` finds that out and makes it `failed`."
    )
    # Not validated: it may quote a model, and pydantic refuses text that is not valid Unicode.
    error: SkipValidation[str | None] = Field(
        default=None,
        description="Why the run failed. `interrupted` after Ctrl-C or SIGTERM and `the process was killed` after "
        "`kill -9`; the summary then holds what the finished rounds had come to, and no comparison.",
    )
    needs_new_settings: bool = Field(
        default=False,
        description="Whether the run failed since a setting of its own cannot work with its tasks. `rlft resume` keeps "
        "both, so that it would fail again: start another run.",
    )
    pipeline_run_id: str | None = Field(default=None, description="The run's id in ZenML.")
    mlflow_run_id: str | None = Field(default=None, description="The run's id in MLflow.")
    base: Metrics = Field(
        default={},
        description="The untrained model's metrics on `test`, and under `gate/…` and `off_distribution/…` those on the "
        "other splits. The models that are compared are called arms.",
    )
    warm_start: Metrics = Field(
        default={}, description="The same metrics of the model after the warm start, if the config has one."
    )
    controls: dict[str, Metrics] = Field(
        default={},
        description="The same metrics of each control, by its name in the config (`controls`): what something simpler "
        "reaches from the same start with at most the FLOPs of the training, search and validation included. "
        "`constant` is the best constant answer, which every run has.",
    )
    controls_left_out: dict[str, str] = Field(
        default={}, description="Why controls that the config wants do not apply, by their names."
    )
    control_model: str = Field(
        default="", description="Name or folder of the model that is `controls.model`; empty without one."
    )
    control_costs: dict[str, ControlCost] = Field(
        default={}, description="What each control that was trained is made from, and what that took, by its name."
    )
    constant_answer: str | None = Field(
        default=None,
        description="The answer that, given to every task of `validation`, did best there; empty if that is no answer "
        "at all. The candidates stand in `constant_answers.json` in MLflow.",
    )
    constant_answers: dict[str, str] = Field(
        default={},
        description="Of several environments the answer of each, by its name, in place of `constant_answer`.",
    )
    final: Metrics = Field(default={}, description="The same metrics of the trained model.")
    champion: Metrics = Field(
        default={}, description="The same metrics of the champion before this run, if there was one."
    )
    difference: Difference | None = Field(
        default=None,
        description="The trained model minus the model that training started from, on `test`: the warm start if the "
        "config has one, else the base model.",
    )
    difference_base: Difference | None = Field(
        default=None, description="The trained model minus the base model, on `test`."
    )
    difference_controls: dict[str, Difference | None] = Field(
        default={},
        description="The trained model minus each of `controls`, on `test`; null if no task was scored for both. Where "
        "the interval is not wholly above zero the trained model is not shown to be better than the control.",
    )
    collapsed: str | None = Field(
        default=None,
        description="In a sentence, that the trained model gives only a few answers to the tasks of `test`, although "
        "more are right and it gave more when it started; null if it does not. Such a model is never promoted.",
    )
    differences: dict[str, Difference | None] = Field(
        default={},
        description="What `difference` is, for every part of the reward and every metric of the environment: "
        "`rewards/<part>` → difference; null for a part that applied to no task of both models.",
    )
    pass_at_k: SeveralAttempts | None = Field(
        default=None,
        description="What training did to several attempts at a task; null with `evaluation.pass_at_k: false`.",
    )
    contamination: dict[str, Contamination] = Field(
        default={},
        description="By split, how many evaluation tasks are not new to the trained model, and what its score is "
        "without them ([definition](contamination.md)).",
    )
    forgetting: dict[str, TextChange] = Field(
        default={},
        description="What training cost elsewhere, from the base model to the trained one, by the name of a text that "
        "has nothing to do with the task ([how](forgetting.md)).",
    )
    forgetting_sentences: list[str] = Field(
        default=[], description="The same in words, and why it is not known of some texts or of all."
    )
    diagnosis: list[str] = Field(
        default=[],
        description="Why the reward did not rise, in sentences with the settings to change, the likeliest cause first "
        "(`rlft diagnose`); empty of a run that improved, or if no known cause is seen.",
    )
    alarms: list[AlarmSection] = Field(
        default=[],
        description="What the monitors have seen while the run trained, each the first time, in the order of rounds "
        "([monitors](monitors.md)). A model whose run a monitor was to stop is not promoted.",
    )
    baseline: Baseline | None = Field(default=None, description="What was measured before training, and what it means.")
    gate: str | None = Field(
        default=None,
        description="What the split `gate` can see, computed before training: the smallest true gain that it finds "
        "four times out of five. null if it has too few groups of tasks to promote anything.",
    )
    ledger: Ledger = Field(default_factory=Ledger, description="What became of the rollouts of all rounds.")
    dynamic_sampling: DynamicSampling | None = Field(
        default=None, description="What groups without variance have cost; null in a run that does not replace them."
    )
    judges: dict[str, JudgeCost] = Field(
        default={},
        description="What judges were asked, by the stage that asked: `audit`, `baseline`, `rounds`, "
        "`validation`, `controls` (while they were trained or their prompts chosen), `constant_answer`, `evaluation` "
        "(of the other models that are compared) and `several_attempts` (pass@k). Results from the cache have what the "
        "run took that did the work. Empty of a reward without a judge.",
    )
    promotion: Promotion = Field(default_factory=Promotion, description="What happened in the registry.")
    seconds: Seconds = Field(default_factory=Seconds, description="Wall seconds of the stages.")
    rounds: int = Field(default=0, description="How many rounds were done.")
    best_round: int | None = Field(
        default=None,
        description="The number of rounds after which the model in `final` was the best in validation; 0 if no "
        "validation could be scored, and `final` is the model that training started from.",
    )
    stopped: str | None = Field(
        default=None, description="Why training ended early; empty or null if all its rounds were done."
    )
    memory_megabytes: float | None = Field(
        default=None, description="The most memory that the run's process has held, without those that it started."
    )
    gpu_memory_megabytes: float | None = Field(
        default=None, description="The most memory of a GPU that torch had in use in that process; null without a GPU."
    )

    @property
    def exit_code(self) -> int:
        """The exit code of `rlft run` and `rlft resume` for a run that came to this."""
        is_trained = self.status in ("improved", "not_improved")
        return NOT_REGISTERED if is_trained and self.promotion.version is None else EXIT_CODES.get(self.status, 1)
