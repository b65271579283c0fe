"""One attempt scored by a written reward, and the table of its scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.table import Table

from cli.reward.opened import specification_in
from rlft.errors import RlftError
from rlft.reporting.terminal import console, styled
from rlft.texts.secrets import hide

if TYPE_CHECKING:
    from rlft.config import Config
    from rlft.environments.contract.base import BaseEnv
    from rlft.rewards.specification.scoring import Scored
    from rlft.types import Task


@dataclass(frozen=True, slots=True)
class Tried:
    """One attempt at a task, scored: what each criterion came to, the parts, and the total."""

    task: Task
    text: str
    scored: Mapping[str, Scored]
    weights: Mapping[str, float]
    maxima: Mapping[str, float]
    total: float
    full: float

    def to_json(self) -> dict[str, Any]:
        """Return it as `--json` prints it."""
        criteria = [
            {
                "name": name,
                "found": each.found,
                "counts": each.counts,
                "maximum": self.maxima[name],
                "weight": self.weights[name],
                "met": each.is_met,
                "why": each.why,
            }
            for name, each in self.scored.items()
        ]
        total = {"total": self.total, "full": self.full}
        return {"task": self.task.id, "attempt": self.text, "criteria": criteria, **total}

    def show(self) -> None:
        """Print the scores as a table, with the reason of each."""
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        for heading in ("criterion", "score", "of", "weight", "why"):
            table.add_column(heading, overflow="fold", justify="left" if heading in ("criterion", "why") else "right")
        for name, each in self.scored.items():
            score = "-" if each.counts is None else f"{each.counts:g}"
            if each.found is not None and each.counts != each.found:
                score = f"{each.found:g}, counts {score}"
            why = each.why
            if self.weights[name] < 0 and each.counts is not None:
                why = f"it costs {'something' if each.counts > 0 else 'nothing'}: {why}"
            cells = (styled(name), score, f"{self.maxima[name]:g}", f"{self.weights[name]:g}", styled(why))
            table.add_row(*cells)
        console.print(table)
        console.print(f"The total is {self.total:g} of {self.full:g}.")


def try_attempt(config: Config, environment: BaseEnv, attempt: str | Sequence[object], task: Task) -> Tried:
    """Score one attempt, a text or messages. Raises RlftError where a grader fails, or an attempt is no message."""
    from rlft.environments.specified import helpers_of
    from rlft.environments.workers.threads import run_one
    from rlft.rewards.cases import trajectory
    from rlft.rewards.rubric import bounded_total, full_total
    from rlft.rewards.specification.grader import Attempt, item_of
    from rlft.rewards.specification.scoring import parts_of, score_attempt

    specification = specification_in(config)
    weights, maxima = {**environment.reward_weights(), **config.reward.weights}, environment.reward_maxima()
    try:
        completion = trajectory(attempt, task)
        seen = Attempt(completion, item_of(task), helpers_of(environment))
        score = partial(score_attempt, specification, seen)
        scored = run_one(score, environment, seconds=config.reward.timeout_seconds)
        scored = {name: replace(each, why=hide(each.why)) for name, each in scored.items()}
        parts = parts_of(specification, scored)
        total = bounded_total(parts, weights, maxima, environment.reward_minima())
        full = full_total(parts, weights, maxima)
    except RlftError:
        raise
    except Exception as error:  # whatever a grader raises
        what = f"the attempt has no score: {type(error).__name__}: {error}"
        raise RlftError(what, where="reward.spec", fix="mend the criterion, or the attempt") from error
    return Tried(task, completion.text, scored, weights, maxima, total, full)
