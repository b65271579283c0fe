"""The summary of a run, which people and programs rely on; every key is described at its field.

`docs/guide/summary.md` is made from it: `python -m tests.summary_page`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SkipValidation

from mlops.summary.sections import (
    AlarmSection,
    Baseline,
    Contamination,
    ControlCost,
    Difference,
    DynamicSampling,
    JudgeCost,
    Ledger,
    Metrics,
    Promotion,
    Seconds,
    Section,
    SeveralAttempts,
    TextChange,
)
from rlft.formats import SUMMARY

Status = Literal["running", "improved", "not_improved", "too_hard", "already_solved", "failed", "interrupted"]
EXIT_CODES: dict[Status, int] = {"improved": 0, "not_improved": 0, "failed": 1, "too_hard": 3, "already_solved": 4}
NOT_REGISTERED = 5  # the exit code of a run whose policy is evaluated and could not be registered
NOT_PROMOTED = 7  # that of `rlft promote` for a policy that does not become the champion


class Summary(Section):
    """What a run came to. Every key is there, whatever happened; what was not measured is empty or null."""

    format: int = Field(
        default=SUMMARY.newest,
        description="Format version of this summary ([which are read](upgrading.md)); those that were "
        "written before there were versions lack it.",
    )
    status: Status = Field(
        description="`improved`: the whole interval of `difference` is above zero, also with errors counted against "
        "the trained model (`ci_low_errors`). `not_improved`: it is not. "
        "`too_hard`, `already_solved`: the baseline showed that training could not help, so nothing was trained. "
        "`failed`: see `error`. `interrupted`: Ctrl-C, SIGTERM or a closed terminal has ended it, and `rlft resume` "
        "goes on with it (in format version 1 that is `failed`). `running`: the run goes on, or was killed in a way "
        "that left no time to say so (`kill -9`); `rlft doctor` and `rlft resume` find that out and make it `failed`."
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
    process: int | None = Field(default=None, description="Id of the process that ran it.")
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
        "`constant` is the best constant answer, which every run has; `few_shot` and `model` are the base model and "
        "another one, with examples in their prompts.",
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
    sft_control: Metrics = Field(default={}, description="A copy of `controls.sft`, which older summaries lack.")
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
    difference_sft_control: Difference | None = Field(
        default=None, description="A copy of `difference_controls.sft`, which older summaries lack."
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
        description="What judges were asked, by the stage that asked: `canaries`, `audit`, `baseline`, `rounds`, "
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
    disk_megabytes: float | None = Field(
        default=None, description="By how much `.rlft/` has grown since the run began, or was gone on with."
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
