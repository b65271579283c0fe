"""The summary of a run: a contract for people and programs, with every key described at its field."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SkipValidation

Status = Literal["running", "improved", "not_improved", "too_hard", "already_solved", "failed"]
EXIT_CODES: dict[Status, int] = {"improved": 0, "not_improved": 0, "failed": 1, "too_hard": 3, "already_solved": 4}
Metrics = dict[str, float]


class Section(BaseModel):
    """A part of the summary. What is assigned is checked; keys that another version wrote are left out."""

    model_config = ConfigDict(validate_assignment=True)


class Difference(Section):
    """One policy minus another on `test`, over the tasks that were scored for both."""

    metric: str
    before: float = Field(description="Mean of the other policy.")
    after: float = Field(description="Mean of the trained policy.")
    mean: float = Field(description="Mean of after minus before.")
    ci_low: float = Field(description="Lower end of the 95 % interval, by a paired bootstrap over tasks.")
    ci_high: float = Field(description="Its upper end.")
    tasks: int = Field(description="How many tasks were scored for both.")


class Baseline(Section):
    """What was measured before training; its metrics stand beside these keys."""

    model_config = ConfigDict(extra="allow")

    verdict: Literal["trainable", "too_hard", "already_solved"]
    advice: str
    frac_tasks_with_variance: float = Field(description="Share of tasks whose attempts were not all worth the same.")


class Ledger(Section):
    """The fates of all sampled rollouts: `sampled` = `trained` + `filtered` + `errored`."""

    sampled: int = 0
    trained: int = 0
    filtered: int = Field(default=0, description="Left out because all attempts at their task were worth the same.")
    errored: int = Field(default=0, description="Left out because they, or their reward, failed.")


class Promotion(Section):
    """What happened in the registry."""

    promoted: bool = False
    name: str | None = None
    version: str | None = None
    alias: Literal["champion", "challenger"] | None = None
    reasons: list[str] = []


class Seconds(Section):
    """Wall seconds. A stage that came from the cache has the seconds of the run that did the work."""

    setup: float = 0.0
    warm_start: float = 0.0
    rollout: float = 0.0
    score: float = 0.0
    train: float = 0.0
    evaluate: float = 0.0
    rounds: float = Field(default=0.0, description="All rounds, orchestration included.")
    total: float = 0.0


class Summary(Section):
    """What a run came to. Every key is there, whatever happened; what was not measured is empty or null."""

    status: Status = Field(
        description="`improved`: the whole interval of `difference` is above zero. `not_improved`: it is not. "
        "`too_hard`, `already_solved`: the baseline showed that training could not help, so nothing was trained. "
        "`failed`: see `error`. `running`: the run goes on, or was killed in a way that left no time to say so "
        "(`kill -9`); `rlft doctor` and `rlft resume` find that out and make it `failed`."
    )
    error: SkipValidation[str | None] = Field(  # may quote a model, whose text need not be valid Unicode
        default=None,
        description="Why it failed. `interrupted` after Ctrl-C or SIGTERM and `the process was killed` after "
        "`kill -9`; the summary then holds no measurements.",
    )
    pipeline_run_id: str | None = Field(default=None, description="The run's id in ZenML.")
    mlflow_run_id: str | None = Field(default=None, description="The run's id in MLflow.")
    process: int | None = Field(default=None, description="Number of the process that ran it.")
    base: Metrics = Field(
        default={},
        description="The untrained model's metrics on `test`, and under `gate/…` and `off_distribution/…` those on the "
        "other splits. The models that are compared are called arms.",
    )
    warm_start: Metrics = Field(default={}, description="The same after the warm start, if the config has one.")
    sft_control: Metrics = Field(default={}, description="The same of the SFT control, which only a warm start has.")
    final: Metrics = Field(default={}, description="The same of the trained model.")
    champion: Metrics = Field(default={}, description="The same of the champion before this run, if there was one.")
    difference: Difference | None = Field(
        default=None,
        description="The trained model minus the model that training started from, on `test`: the warm start if the "
        "config has one, else the base model.",
    )
    difference_base: Difference | None = Field(default=None, description="The same, minus the base model.")
    difference_sft_control: Difference | None = Field(default=None, description="The same, minus the SFT control.")
    differences: dict[str, Difference | None] = Field(
        default={},
        description="What `difference` is, for every part of the reward and every metric of the environment: "
        "`rewards/<part>` → difference.",
    )
    baseline: Baseline | None = Field(default=None, description="What was measured before training, and what it means.")
    ledger: Ledger = Field(default_factory=Ledger, description="The fates of all sampled rollouts.")
    promotion: Promotion = Field(default_factory=Promotion, description="What happened in the registry.")
    seconds: Seconds = Field(default_factory=Seconds, description="Wall seconds of the stages.")
    rounds: int = Field(default=0, description="How many rounds were done.")
    best_round: int | None = Field(
        default=None, description="The round, from 0, whose policy is `final`: the best in validation."
    )
    stopped: str | None = Field(default=None, description="Why training ended early.")
    disk_megabytes: float | None = Field(default=None, description="Size of `.rlft/` at the end.")
