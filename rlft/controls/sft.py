"""The SFT control: imitates the answers of all train tasks, which GRPO's reward may use, too."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rlft.config import WarmStartConfig
from rlft.controls.best import ControlReport
from rlft.controls.judging import Judge
from rlft.controls.rates import usual_rate
from rlft.controls.sft_search import Search
from rlft.policy import Policy
from rlft.progress import Progress, silent
from rlft.sft.demonstration_file import Demonstration
from rlft.sft.demonstrations import Answers, all_demonstrations
from rlft.sft.encoding import Chats, open_chats, that_fit
from rlft.sft.training import ENOUGH, Memory
from rlft.specification.billing import billed
from rlft.workers.settings import Isolation


@billed
def run_sft_control(
    policy: Policy,
    settings: WarmStartConfig | None,
    judge: Judge,
    *,
    flops: float,
    validation_flops: float,
    seed: int,
    isolation: Isolation | None = None,
    progress: Progress = silent,
    memory: Memory = ENOUGH,
) -> ControlReport:
    """Change `policy` in place to the best validated one of supervised fine-tuning on all demonstrations there are.

    `flops` is the budget, search and validation included; one validation is expected to cost `validation_flops`.
    `memory` bounds what a step needs. Batch size, warm-up and the middle learning rate are those of the warm start
    `settings`. Demonstrations that the policy cannot be shown are left out; without any it stays as it is. Raises as
    `all_demonstrations` does.
    """
    started, environment = time.perf_counter(), judge.environment
    usual = settings or WarmStartConfig(steps=1)
    chat = open_chats(policy, environment, isolation)
    found = all_demonstrations(
        settings, judge.tasks.split("train"), environment, isolation=isolation, progress=progress
    )
    shown = _that_fit(policy, chat, found)
    if not shown:
        return ControlReport(flops, 0.0, time.perf_counter() - started, 0, judge.metric)
    search = Search(
        policy,
        shown,
        judge,
        chat,
        batch_size=usual.batch_size,
        warmup_steps=usual.warmup_steps,
        seed=seed,
        budget=flops,
        validation_flops=validation_flops,
        progress=progress,
        memory=memory,
    )
    search.run(settings.learning_rate if settings else usual_rate(policy))
    return ControlReport(
        budget=flops,
        spent=search.spent,
        seconds=time.perf_counter() - started,
        demonstrations=len(search.demonstrations[search.answers]),
        metric=judge.metric,
        candidates=tuple(search.best.candidates),
        chosen=search.best.chosen,
        losses=search.best.losses,
        answers=search.answers,
        answer_tokens=search.answer_tokens(),
    )


def _that_fit(
    policy: Policy, chat: Chats, found: Mapping[Answers, Sequence[Demonstration]]
) -> dict[Answers, list[Demonstration]]:
    """Return what the policy can be shown, as the run has trained by now: an answer that it cannot must not end it."""
    return {answers: fitting for answers, shown in found.items() if (fitting := that_fit(policy, chat, shown))}
