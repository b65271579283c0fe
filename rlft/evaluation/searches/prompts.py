"""The search of the best prompt of a model that is not trained: what it reads before each task.

Prompts are measured before a model reads them: whether they fit its context, and what reading them costs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import dropwhile
from typing import Any, ClassVar

from rlft.config import WarmStartConfig
from rlft.config.environment import Isolation
from rlft.environments.contract.base import BaseEnv, prompt_messages
from rlft.errors import PolicyError
from rlft.evaluation.comparison import guarded_mean, is_better
from rlft.evaluation.searches.validator import Terms, Validator
from rlft.harness.asked import COMPLETION_TOKENS, PROMPT_TOKENS
from rlft.harness.attempt import Example, Examples, Form
from rlft.harness.chat.conversation import open_chat
from rlft.harness.opening import open_playground
from rlft.harness.rollout import Player, PolicyPlayer
from rlft.models.flops import ROLLOUT_FLOPS, encoded, shape_of
from rlft.progress import Progress, silent
from rlft.training.demonstrations import Answers, all_demonstrations
from rlft.types import EvaluationReport, Judging, Message, Report, Rewards, Rollouts, Split, Task

_READ: tuple[Split, ...] = ("validation", "gate", "test", "off_distribution")  # splits on which policies are evaluated


class Prompts:
    """Measures the prompts of all tasks that a model is evaluated on, with examples and without.

    Of a model behind an address nobody knows tokens and FLOPs, only whether examples can be shown as text. A prompt
    that is too long for it is refused by the endpoint, and its attempts count as errors.
    """

    def __init__(self, player: Player, validator: Validator) -> None:
        tasks = [task for split in _READ for task in validator.tasks.split(split)]
        self._prompts = [tuple(prompt_messages(task, validator.environment)) for task in tasks]
        self._policy = player.policy if isinstance(player, PolicyPlayer) else None
        if self._policy is None:
            return
        sampling, playground = validator.sampling, open_playground(validator.environment, validator.sampling.harness)
        self._chat = open_chat(
            self._policy.tokenizer,
            tuple(playground.tools.values()),
            tool_format=sampling.harness.tool_format,
            multi_turn=playground.max_turns > 1,
        )
        self._validated = len(validator.tasks.split("validation"))
        context = sampling.engine.context_length(self._policy.context_length)
        self._room = (1 << 62 if context is None else context) - sampling.max_completion_length
        self._plain = [self._chat.prompt(prompt) for prompt in self._prompts]

    def reading_flops(self, examples: Examples | None) -> float:
        """Return the FLOPs of reading each validation prompt once with these examples; 0 where they are not known.

        Raises ValueError or PolicyError, which say why, if the examples cannot be shown to this model.
        """
        shown = [examples.before(prompt) for prompt in self._prompts] if examples else self._prompts
        if self._policy is None:
            return 0.0
        prompts = [self._chat.prompt(messages) for messages in shown]
        if lost := sum(len(plain) <= self._room < len(long) for plain, long in zip(self._plain, prompts, strict=True)):
            raise ValueError(f"with it {lost} of {len(prompts)} prompts do not fit the context of the model")
        if examples and not self._shows_calls(examples):
            raise ValueError("the model has no chat template, which would show the calls of tools")
        read = prompts[: self._validated]
        tokens, pairs = encoded(read, shares_prompts=self._policy.shares_prompts)
        return shape_of(self._policy.model).forward(tokens, len(read), pairs)

    def _shows_calls(self, examples: Examples) -> bool:
        calls = [call for one in examples.shown for message in one.turns for call in message.get("tool_calls", [])]
        text = self._chat.decode(self._chat.prompt(examples.before(self._prompts[0]))) if calls else ""
        return all(call["function"]["name"] in text for call in calls)


logger = logging.getLogger(__name__)

NUMBERS = (4, 8, 2)  # of examples, in the order in which they are tried; the prompt without any comes last
FORMS: tuple[Form, ...] = ("turns", "text")


@dataclass(frozen=True, slots=True)
class PromptTrial:
    """Reports a prompt: its examples and instructions, and the mean in validation, errors counted as lowest.

    `answers` says whose answers the examples have (`rlft.training.demonstrations.all_demonstrations`). `validation` is
    `None` where nothing could be scored, and for a prompt that `left_out` says why it was not tried.
    """

    examples: int
    form: str
    validation: float | None = None
    left_out: str = ""
    answers: str = ""
    instructions: str = ""


@dataclass(frozen=True, slots=True)
class PromptReport(Report):
    """Reports a prompted control: FLOPs `spent` of its `budget`, wall seconds, and the prompts, of which one is chosen.

    `examples` is the `Examples.model_dump` of the chosen prompt; `None` for the prompt as it is. Of a model
    behind an address nobody knows the FLOPs, so both are `None`; instead there are the tokens that its endpoint says to
    have read (`prompt_tokens`) and written, if it says so. `judging` is what judges were asked, `None` if none was.
    """

    passing: ClassVar[frozenset[str]] = Report.passing | {"judging"}

    budget: float | None
    spent: float | None
    seconds: float
    metric: str
    trials: tuple[PromptTrial, ...]
    chosen: PromptTrial
    examples: dict[str, Any] | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    judging: Judging | None = None

    @property
    def demonstrations(self) -> int:
        """How many examples the chosen prompt has."""
        return 0 if self.examples is None else len(self.examples["shown"])

    def read_examples(self) -> Examples | None:
        """Return the examples of the chosen prompt."""
        return None if self.examples is None else Examples.model_validate(self.examples)


def choose_examples(player: Player, validator: Validator, terms: Terms, progress: Progress = silent) -> PromptReport:
    """Choose number, form and answers of the examples in the prompt by validation; the first of equally good ones.

    Raises TaskError for a demonstration that cannot be played.
    """
    tasks, isolation = validator.tasks.split("train"), validator.sampling.harness.isolation
    search = PromptSearch(player, validator, terms)
    search.run(find_examples(terms.warm_start, tasks, validator.environment, isolation=isolation, progress=progress))
    return search.report()


def find_examples(
    settings: WarmStartConfig | None,
    tasks: Sequence[Task],
    environment: BaseEnv,
    *,
    isolation: Isolation | None = None,
    progress: Progress = silent,
) -> dict[Answers, list[Example]]:
    """Return as many solved tasks as a prompt has at most, by whose answers they have, as `all_demonstrations` does."""
    found = all_demonstrations(settings, tasks, environment, most=max(NUMBERS), isolation=isolation, progress=progress)
    return {
        answers: [Example(prompt=list(one.prompt), turns=_up_to_the_answer(one.turns)) for one in shown]
        for answers, shown in found.items()
    }


def _up_to_the_answer(turns: Sequence[Message]) -> list[Message]:
    """Return the messages up to the assistant's last one; what the environment said then nobody has answered."""
    return [*dropwhile(lambda message: message["role"] != "assistant", reversed(turns))][::-1]


def candidates(pool: Sequence[Example]) -> Iterator[Examples]:
    """Yield the prompts with examples in the order in which they are tried."""
    for number in NUMBERS:
        if number <= len(pool):
            yield from (Examples(form=form, shown=list(pool[:number])) for form in FORMS)


@dataclass
class PromptSearch:
    """Validates with one prompt after the other, as the budget of FLOPs allows, and keeps the best.

    The first validation is expected to cost what the terms say beside reading its prompts, and the others what was
    measured by then; without that the first takes what it takes. A prompt whose validation would exceed the
    budget is not tried, and neither is one with which a task does not fit the context any more.
    """

    player: Player
    validator: Validator
    terms: Terms
    spent: float = 0.0
    measured: dict[str, float] = field(default_factory=dict)  # the sums of what the validations measured
    trials: list[PromptTrial] = field(default_factory=list)
    chosen: PromptTrial = field(default=PromptTrial(0, ""))
    examples: Examples | None = None

    def __post_init__(self) -> None:
        self._report: EvaluationReport | None = None
        self._began, self._prompts = time.perf_counter(), Prompts(self.player, self.validator)
        self._expected = self.terms.validation_flops or 0.0  # of a validation beside reading its prompts

    def report(self) -> PromptReport:
        """Return what was tried, and what did best."""
        budget = self.terms.flops
        tokens = {
            name: int(self.measured[name]) for name in (PROMPT_TOKENS, COMPLETION_TOKENS) if name in self.measured
        }
        return PromptReport(
            budget=budget,
            spent=None if budget is None else self.spent,
            seconds=time.perf_counter() - self._began,
            metric=self.validator.metric,
            trials=tuple(self.trials),
            chosen=self.chosen,
            examples=None if self.examples is None else self.examples.model_dump(),
            prompt_tokens=tokens.get(PROMPT_TOKENS),
            completion_tokens=tokens.get(COMPLETION_TOKENS),
        )

    def run(self, pools: Mapping[Answers, Sequence[Example]]) -> None:
        """Try the first prompt that can be shown with each kind of answers, others with the better kind, and none."""
        prompts = {answers: candidates(pool) for answers, pool in pools.items()}
        for answers, untried in prompts.items():
            any(self.consider(examples, answers) for examples in untried)  # up to the first that was validated
        best = next((answers for answers in prompts if answers == self.chosen.answers), next(iter(prompts), "gold"))
        for examples in prompts.get(best, ()):
            self.consider(examples, best)
        self.consider(None)

    def attempts_left(self, *, beside: int) -> int | None:
        """Return for how many attempts at a task the budget has room beside so many validations.

        They cost what those in validations have; it is `None` where nobody knows that.
        """
        if self.terms.flops is None:
            return None
        of_a_validation = len(self.validator.tasks.split("validation")) * self.validator.num_generations
        made = of_a_validation * sum(trial.validation is not None for trial in self.trials)
        left = (self.terms.flops - self.spent) * made / self.spent if self.spent else 0
        return max(0, int(left) - beside * of_a_validation)

    def attempt(self, tasks: Sequence[Task], examples: Examples | None) -> tuple[Rollouts, Rewards]:
        """Attempt each task once with these examples, as in a validation; what it takes is spent."""
        sampling = self.validator.sampling.model_copy(update={"examples": examples})
        attempts = self.validator.attempt(
            self.player, tasks, sampling, num_generations=1, round=0, label="instructions"
        )
        self._spend(attempts[0].metrics)
        return attempts

    def _spend(self, measured: Mapping[str, float]) -> float:
        """Count what was measured, and return the FLOPs of it."""
        self.measured |= {name: self.measured.get(name, 0.0) + value for name, value in measured.items()}
        flops = measured.get(ROLLOUT_FLOPS, 0.0)
        self.spent += flops
        return flops

    def consider(self, examples: Examples | None, answers: str = "") -> bool:
        """Validate with these examples, keep them if they are the best so far; return whether that could be done."""
        instructions = examples.instructions if examples else ""
        number = len(examples.shown) if examples else 0
        form = examples.form if examples and number else ""
        reading, reason, budget = 0.0, "", self.terms.flops
        try:
            reading = self._prompts.reading_flops(examples)
            if budget is not None and self.spent + reading + self._expected > budget:
                reason = "its validation does not fit the budget any more"
        except (PolicyError, ValueError) as cause:
            reason = cause.what if isinstance(cause, PolicyError) else str(cause)
        if reason:
            logger.info("a prompt with %d examples is left out: %s", number, reason)
            self.trials.append(PromptTrial(number, form, left_out=reason, answers=answers, instructions=instructions))
            return False
        sampling = self.validator.sampling.model_copy(update={"examples": examples})
        report, measured = replace(self.validator, sampling=sampling).validate_player(self.player)
        is_first = not self.spent
        flops = self._spend(measured)
        self._expected = flops - reading if is_first else max(self._expected, flops - reading)
        metric = self.validator.metric
        found = PromptTrial(number, form, guarded_mean(report, metric), answers=answers, instructions=instructions)
        self.trials.append(found)
        logger.info("%d examples as %s: %s %s", number, form or "none", metric, found.validation)
        if is_better(report, self._report, metric):
            self._report, self.chosen, self.examples = report, found, examples
        return True
