"""How a policy is measured, what it is compared with, and when it becomes the champion.

These are the sections `baseline`, `evaluation`, `tracking`, `controls` and `promotion` of a config.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer, field_validator, model_validator

from rlft.config.section import (
    HOTTEST,
    LONGEST_SECONDS,
    MOST,
    FolderName,
    ModelName,
    PathText,
    Section,
    Text,
    check_address,
)


class BaselineConfig(Section):
    """The measurement before training that decides whether training can help."""

    num_tasks: int = Field(default=100, ge=1, le=MOST, description="At most this many validation tasks are attempted.")
    num_generations: int = Field(default=8, ge=2, le=10_000, description="Attempts at each of these tasks.")
    already_solved: float = Field(
        default=0.97,
        gt=0,
        le=1,
        description="Share of solved attempts (avg@k, 0 to 1) from which nothing is trained, as nothing is left to "
        "learn.",
    )


class AttemptsConfig(Section):
    """How several attempts at a task are sampled for an evaluation."""

    num_generations: int = Field(
        default=1, ge=1, le=10_000, description="Attempts at each task. More than one needs a temperature above 0."
    )
    temperature: float = Field(
        default=0.0, ge=0, le=HOTTEST, description="Sampling temperature. With 0 the likeliest token is always taken."
    )
    top_p: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="Sample only among the likeliest tokens that together have this probability (nucleus sampling).",
    )
    top_k: int = Field(
        default=0, ge=0, le=MOST, description="Sample only among this many likeliest tokens. 0 means among all."
    )
    min_p: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Sample only among tokens that are at least this fraction as likely as the likeliest one.",
    )

    @model_validator(mode="after")
    def _draws_several_that_differ(self) -> Self:
        if self.num_generations > 1 and self.temperature == 0:
            raise ValueError(
                "num_generations above 1 with temperature 0 samples the same answer again; set temperature, or "
                "num_generations to 1"
            )
        return self


class EvaluationConfig(AttemptsConfig):
    """Validation during training and the comparison at the end."""

    metric: Literal["auto", "accuracy", "reward"] = Field(
        default="auto",
        description="What models are compared by: `accuracy` is the share of solved attempts, `reward` the mean "
        "reward. `auto` takes the reward where it is graded, so that whether attempts are solved explains less than "
        "nine tenths of its variance over the tasks of the baseline, and else the accuracy.",
    )
    validate_every: int = Field(
        default=5,
        ge=1,
        le=MOST,
        description="The policy is validated after every n-th round, and after the last one.",
    )
    patience: int = Field(
        default=0,
        ge=0,
        le=MOST,
        description="Training ends when so many validations in a row are together not measurably better than as many "
        "before them, that before training included (task by task, one-sided t-test at 10 %). 0 means that it goes on "
        "to the last round.",
    )
    pass_at_k: bool = Field(
        default=True,
        description="Whether the model that training started from and the trained one attempt at most "
        "`baseline.num_tasks` tasks of `test` `baseline.num_generations` times each at `rollout.temperature`, to see "
        "whether training made the model solve more in several attempts, or only its first attempt better.",
    )
    forgetting: bool = Field(
        default=True,
        description="Whether it is measured what training cost elsewhere: how well the base model and the trained one "
        "predict texts that have nothing to do with the task ([forgetting](forgetting.md)). A policy from scratch has "
        "nothing to forget.",
    )
    forgetting_margin: float = Field(
        default=0.05,
        gt=0,
        le=100,
        description="Bits per byte that training may cost on each of these texts before it is said to have cost "
        "something; what the default rests on is told [there](forgetting.md#the-margin).",
    )


class TrackingConfig(Section):
    """What is written to MLflow."""

    experiment: FolderName | None = Field(
        default=None, description="Name of the MLflow experiment. null means the config's `name`."
    )
    trace_every: int = Field(
        default=10,
        ge=0,
        le=MOST,
        description="The rollouts of every n-th round are stored as MLflow traces. 0 means that none are.",
    )
    trace_rollouts: int = Field(
        default=16, ge=1, le=MOST, description="At most this many rollouts of such a round are traced."
    )


class ModelControl(Section):
    """Another model, with examples in its prompt: `{model: NAME}` in the list `controls`."""

    model: PathText = Field(
        description="Name on the Hugging Face Hub, or folder, of a causal language model; with `endpoint` its name "
        "there."
    )
    revision: FolderName | None = Field(
        default=None, description="Branch, tag or commit of the Hub model. null means its main branch."
    )
    endpoint: str | None = Field(
        default=None,
        description="Address of an OpenAI-compatible server that has the model, such as http://127.0.0.1:8000/v1; "
        "`/chat/completions` is asked below it. null means that the model is loaded here.",
    )
    api_key: str | None = Field(
        default=None,
        pattern=r"^env:[A-Za-z_]\w*$",
        description="Key of the endpoint, as env:NAME for the environment variable that holds it. null sends none.",
    )
    timeout_seconds: float = Field(
        default=120.0, gt=0, le=LONGEST_SECONDS, description="Seconds that one request to the endpoint may take."
    )
    attempts: int = Field(
        default=5,
        ge=1,
        le=1000,
        description="Times that the endpoint is asked the same before the rollout is an error.",
    )
    concurrency: int = Field(
        default=8, ge=1, le=10_000, description="The endpoint gets at most this many requests at the same time."
    )

    @field_validator("model")
    @classmethod
    def _is_no_address(cls, model: str) -> str:
        if model.startswith(("openai:", "http://", "https://")):
            raise ValueError("a model behind an address is written {model: NAME, endpoint: ADDRESS, api_key: env:NAME}")
        return model

    @field_validator("endpoint")
    @classmethod
    def _is_an_address(cls, endpoint: str | None) -> str | None:
        return endpoint and check_address(endpoint, path="/v1")


def arms() -> Mapping[str, Any]:
    """Return the classes of `rlft.evaluation.arms` by name. They are imported here, as they import this room."""
    return import_module("rlft.evaluation.arms").ARMS


def _as_arm(given: Any) -> Any:
    """Return the arm of a name, or of a mapping of settings, one of which is called as the arm is."""
    known = {name: kind for name, kind in arms().items() if not kind.in_every_run}
    if isinstance(given, tuple(known.values())):
        return given
    if isinstance(given, str) and given in known and not known[given].example:
        return known[given]()
    named = [name for name in known if name in given] if isinstance(given, Mapping) else []
    if not named:
        shown = sorted(map(str, given)) if isinstance(given, Mapping) else given  # the values may hold a key
        forms = [f"{{{name}: ...}}" if kind.example else name for name, kind in known.items()]
        raise ValueError(f"{shown!r:.80} is no control: use {', '.join(forms)}")
    return known[named[0]].model_validate(given)


def _as_written(arm: Any) -> Any:
    return arm.model_dump(mode="json") or arm.name


AnyControl = Annotated[Any, BeforeValidator(_as_arm), PlainSerializer(_as_written)]


PromotionSuite = Literal["test", "off_distribution"]  # splits beside `gate` on which every policy is evaluated


class SuiteRule(Section):
    """What must hold on a suite beside the gate."""

    margin: float = Field(
        gt=0,
        le=1e9,
        description="The lower bound of each difference in `evaluation.metric` must lie above minus this.",
    )


class PromotionConfig(Section):
    """When a trained policy becomes the champion, the model that is in use."""

    name: ModelName | None = Field(
        default=None, description="Name of the model in the registry. null means the config's `name`."
    )
    approval: Literal["none", "required"] = Field(
        default="none",
        description="`none`: a policy that passes the gate becomes the champion at once. `required`: it waits as the "
        "challenger until a person has approved it with `rlft approve`, or rejected it with `rlft reject`.",
    )
    looks: int = Field(
        default=20,
        ge=1,
        le=1000,
        description="How many decisions one gate may see. A chance of 5 % that a model which is no better is promoted "
        "is split equally over them, so more looks need a larger gain; afterwards nothing is promoted until the gate "
        "is drawn anew. It holds for models that nobody has chosen by what the gate said.",
    )
    min_improvement: float = Field(
        default=0.0,
        ge=0,
        le=1e9,
        description="How much better than the base model, the warm start and the champion the policy must be: the "
        "lower bound of each difference in `evaluation.metric` on the split `gate` must exceed this.",
    )
    suites: dict[PromotionSuite, SuiteRule] = Field(
        default={},
        description="Splits on which the policy must be shown to lose no more than a margin to the base model, the "
        "warm start and the champion, as in `{off_distribution: {margin: 0.02}}`. A split of too few tasks shows "
        "nothing, and then nothing is promoted.",
    )
    slices: list[Text] = Field(
        default=[],
        max_length=20,
        description="Columns of the tasks. For each of their values the tasks of `gate` that have it are a slice. A "
        "policy that is shown worse in one of them than the champion, or before the first one than the base model, is "
        "not promoted.",
    )
    audit: Literal["optional", "required"] = Field(
        default="optional",
        description="`required`: nothing is promoted unless the reward has passed its audit (`reward.audit`).",
    )
