"""The prompted controls: a model that is not trained, with solved tasks in its prompt (arXiv:2005.14165)."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import dropwhile
from typing import Any, ClassVar

from rlft.comparison import guarded_mean, is_better
from rlft.config import WarmStartConfig
from rlft.contract.base import BaseEnv
from rlft.controls.judging import Judge
from rlft.controls.prompts import open_prompts
from rlft.flops import ROLLOUT_FLOPS
from rlft.harness.asked import COMPLETION_TOKENS, PROMPT_TOKENS
from rlft.harness.examples import Example, Examples, Form
from rlft.progress import Progress, silent
from rlft.rollout import Player
from rlft.sft.demonstrations import Answers, all_demonstrations
from rlft.specification.billing import billed
from rlft.types import EvaluationReport, Judging, Message, Report, Task
from rlft.workers.settings import Isolation

logger = logging.getLogger(__name__)

NUMBERS = (4, 8, 2)  # of examples, in the order in which they are tried; the prompt without any comes last
FORMS: tuple[Form, ...] = ("turns", "text")


@dataclass(frozen=True, slots=True)
class PromptTrial:
    """Reports a prompt: how many examples it has, in which form, and the mean in validation, errors counted as lowest.

    `answers` says whose answers the examples have (`rlft.sft.demonstrations.all_demonstrations`). `validation` is
    `None` where nothing could be scored, and for a prompt that `left_out` says why it was not tried.
    """

    examples: int
    form: str
    validation: float | None = None
    left_out: str = ""
    answers: str = ""


@dataclass(frozen=True, slots=True)
class PromptReport(Report):
    """Reports a prompted control: FLOPs `spent` of its `budget`, wall seconds, and the prompts, of which one is chosen.

    `examples` is the `Examples.model_dump` of the chosen prompt; `None` for the prompt without examples. Of a model
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


@billed
def choose_prompt(
    player: Player,
    settings: WarmStartConfig | None,
    judge: Judge,
    *,
    flops: float | None,
    validation_flops: float | None,
    isolation: Isolation | None = None,
    progress: Progress = silent,
) -> PromptReport:
    """Choose number, form and answers of the examples in the prompt by validation; the first of equally good ones.

    `flops` is the budget of all validations; the first is expected to cost `validation_flops` beside reading its
    prompts, and the others what was measured by then. `None`, for another model than the one that was measured, expects
    attempts of the full length. A prompt whose validation would exceed the budget is not tried, and neither is one with
    which a task does not fit the context any more. `flops` is `None` for a model behind an address, with which all are
    tried. Raises TaskError for a demonstration that cannot be played.
    """
    started = time.perf_counter()
    tasks, environment = judge.tasks.split("train"), judge.environment
    pools = find_examples(settings, tasks, environment, isolation=isolation, progress=progress)
    search = PromptSearch(player, judge, flops, validation_flops)
    search.run(pools)
    return PromptReport(
        budget=flops,
        spent=None if flops is None else search.spent,
        seconds=time.perf_counter() - started,
        metric=judge.metric,
        trials=tuple(search.trials),
        chosen=search.chosen,
        examples=None if search.examples is None else search.examples.model_dump(),
        prompt_tokens=search.tokens(PROMPT_TOKENS),
        completion_tokens=search.tokens(COMPLETION_TOKENS),
    )


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
    """Validates with one prompt after the other, as the `budget` of FLOPs allows, and keeps the best."""

    player: Player
    judge: Judge
    budget: float | None
    expected: float | None  # FLOPs of a validation beside reading its prompts; `None` before anything is known
    spent: float = 0.0
    measured: dict[str, float] = field(default_factory=dict)  # the sums of what the validations measured
    trials: list[PromptTrial] = field(default_factory=list)
    chosen: PromptTrial = field(default=PromptTrial(0, ""))
    examples: Examples | None = None

    def __post_init__(self) -> None:
        self._report: EvaluationReport | None = None
        self._prompts = open_prompts(self.player, self.judge)

    def tokens(self, name: str) -> int | None:
        """Return how many tokens all validations took, by the name of a count; `None` if none has told it."""
        return int(self.measured[name]) if name in self.measured else None

    def run(self, pools: Mapping[Answers, Sequence[Example]]) -> None:
        """Try the first prompt that can be shown with each kind of answers, others with the better kind, and none."""
        prompts = {answers: candidates(pool) for answers, pool in pools.items()}
        for answers, untried in prompts.items():
            any(self.consider(examples, answers) for examples in untried)  # up to the first that was validated
        best = next((answers for answers in prompts if answers == self.chosen.answers), next(iter(prompts), "gold"))
        for examples in prompts.get(best, ()):
            self.consider(examples, best)
        self.consider(None)

    def consider(self, examples: Examples | None, answers: str = "") -> bool:
        """Validate with these examples, keep them if they are the best so far; return whether that could be done."""
        number, form = (len(examples.shown), examples.form) if examples else (0, "")
        reason = self._prompts.why_not(examples)
        reading = 0.0 if reason else self._prompts.reading_flops(examples)
        expected = self._prompts.answering_flops(examples) if self.expected is None else self.expected
        if not reason and self.budget is not None and self.spent + reading + expected > self.budget:
            reason = "its validation does not fit the budget any more"
        if reason:
            logger.info("a prompt with %d examples is left out: %s", number, reason)
            self.trials.append(PromptTrial(number, form, left_out=reason, answers=answers))
            return False
        sampling = self.judge.sampling.model_copy(update={"examples": examples})
        report, measured = replace(self.judge, sampling=sampling).validate_player(self.player)
        self.measured |= {name: self.measured.get(name, 0.0) + value for name, value in measured.items()}
        flops = measured.get(ROLLOUT_FLOPS, 0.0)
        before, self.spent = self.spent, self.spent + flops
        self.expected = max(expected, flops - reading) if before else flops - reading
        metric = self.judge.metric
        found = PromptTrial(number, form, guarded_mean(report, metric), answers=answers)
        self.trials.append(found)
        logger.info("%d examples as %s: %s %s", number, form or "none", metric, found.validation)
        if is_better(report, self._report, metric):
            self._report, self.chosen, self.examples = report, found, examples
        return True
