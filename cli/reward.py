"""`rlft reward`: a written reward explained, tried on an attempt, and checked, before anything is trained on it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.guard import guarded
from cli.options import ConfigPath, Overrides, ResultAsJson, Verbose
from rlft.config.file import load_config
from rlft.errors import ConfigError, RlftError, TaskError
from rlft.reporting.terminal import console, plain_table, styled
from rlft.texts.secrets import hide

if TYPE_CHECKING:
    from rlft.config import Config
    from rlft.environments.contract.base import BaseEnv
    from rlft.rewards.cases import CaseResult
    from rlft.rewards.specification.model import Specification
    from rlft.rewards.specification.scoring import Scored
    from rlft.types import Task

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode="markdown", help="Look at a written reward before anything is trained on it."
)
_LONGEST_NAME = 1000  # characters
_SUFFIXES = (".json", ".jsonl", ".txt", ".md")


@app.command()
def explain(
    config: ConfigPath, overrides: Overrides = None, as_json: ResultAsJson = False, verbose: Verbose = False
) -> None:
    """Say in words what a written reward pays for, and score one attempt, the gold of a task.

    Without the data, the words alone.
    """
    with guarded(verbose, None):
        settings = load_config(config, overrides)
        from rlft.rewards.specification.model import in_words

        specification = _specification(settings)
        words, example, why = in_words(specification, settings.reward.weights), None, ""
        if not as_json:
            console.print(words)
        try:
            example = _gold_attempt(settings, _find_task(_tasks_of(settings), None))
        except RlftError as error:
            why = str(error)
        if as_json:
            console.write_json({"words": words, "example": example and example.to_json(), "no_example": why or None})
        elif example is None:
            console.print(f"\nThere is no example: {why}")
        else:
            console.print(f"\nFor example, this attempt at task {example.task.id}:\n\n{example.text}\n")
            example.show()


@app.command()
def run(
    config: ConfigPath,
    attempt: Annotated[
        str,
        typer.Option(
            metavar="TEXT|FILE", help="The attempt: a text, a file with one, or a .json file with a list of messages."
        ),
    ],
    task: Annotated[str | None, typer.Option(help="Id of the task. Without it the first train task is taken.")] = None,
    overrides: Overrides = None,
    as_json: ResultAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Score one attempt at a task, and say why each criterion scored as it did.

    The exit code is 0 whatever the score.
    """
    with guarded(verbose, None):
        settings = load_config(config, overrides)
        _specification(settings)
        given = _attempt(attempt)
        environment = _open_reward(settings)
        tried = _try(settings, environment, given, _find_task(_tasks_of(settings), task))
        if as_json:
            console.write_json(tried.to_json())
            return
        console.print(f"Task {tried.task.id}: {tried.task.text}\n")
        tried.show()


@app.command()
def validate(
    config: ConfigPath,
    with_tasks: Annotated[
        bool,
        typer.Option("--tasks", help="Also read the tasks, and run the cases with their ids."),
    ] = False,
    overrides: Overrides = None,
    as_json: ResultAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Check a written reward and run its cases, without data.

    The exit code is 2 if the specification cannot be used or a case does not hold, and 0 otherwise.
    """
    with guarded(verbose, None):
        settings = load_config(config, overrides)
        specification = _specification(settings)
        from rlft.rewards.cases import run_cases

        tasks, reward = _tasks_of(settings) if with_tasks else (), settings.reward
        results = run_cases(_open_reward(settings), tasks, reward.weights, timeout_seconds=reward.timeout_seconds)
        failed = [each for each in results if each.failed]
        if as_json:
            cases = [_case_as_json(each) for each in results]
            console.write_json({"criteria": list(specification.criteria), "cases": cases, "passed": not failed})
        else:
            _show_cases(len(specification.criteria), results, failed)
        if failed:
            raise typer.Exit(2)


@dataclass(frozen=True, slots=True)
class _Tried:
    """One attempt at a task, scored: what each criterion came to, and the total."""

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
        table = plain_table("criterion", "score", "of", "weight", "why")
        for name, each in self.scored.items():
            score = "-" if each.counts is None else f"{each.counts:g}"
            if each.found is not None and each.counts != each.found:
                score = f"{each.found:g}, counts {score}"
            why = each.why
            if self.weights[name] < 0 and each.counts is not None:
                why = f"it costs {'something' if each.counts > 0 else 'nothing'}: {why}"
            table.add_row(name, score, f"{self.maxima[name]:g}", f"{self.weights[name]:g}", why)
        console.print(table)
        console.print(f"The total is {self.total:g} of {self.full:g}.")


def _gold_attempt(config: Config, task: Task) -> _Tried:
    """Return the gold attempt at a task, scored. Raises RlftError if there is none."""
    environment = _open_reward(config)
    if (gold := environment.gold_completion(task)) is None:
        raise TaskError(f"task {task.id} has no gold completion")
    return _try(config, environment, gold, task)


def _try(config: Config, environment: BaseEnv, attempt: str | Sequence[object], task: Task) -> _Tried:
    """Score one attempt, a text or messages. Raises RlftError where a grader fails, or an attempt is no message."""
    from rlft.environments.specified import helpers_of
    from rlft.environments.workers.threads import run_one
    from rlft.rewards.cases import trajectory
    from rlft.rewards.rubric import bounded_total, full_total
    from rlft.rewards.specification.grader import Attempt, item_of
    from rlft.rewards.specification.scoring import parts_of, score_attempt

    specification = _specification(config)
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
    return _Tried(task, completion.text, scored, weights, maxima, total, full)


def _specification(config: Config) -> Specification:
    """Return the specification of a config. Raises ConfigError where the reward is code, or there are several."""
    if config.environments:
        raise ConfigError(
            f"this config has several environments, each with a reward of its own: {', '.join(config.environments)}",
            where="environments",
            fix="give a config with one `environment`; `rlft audit` attacks the rewards of all",
        )
    if config.reward.spec is None:
        raise ConfigError(
            "the reward of this config is code, not a specification",
            where="reward.spec",
            fix="write one (docs/guide/reward-specification.md); `rlft audit` attacks either kind",
        )
    return config.reward.spec


def _open_reward(config: Config) -> BaseEnv:
    from rlft.environments.contract.loading import load_environment

    return load_environment(config.environment.name, config.environment.kwargs)


def _tasks_of(config: Config) -> Sequence[Task]:
    """Read all tasks of a config. Raises TaskError and ConfigError where that fails."""
    from rlft.reporting.bars import Display
    from rlft.tasks import ingest_tasks

    with Display().stage("tasks") as progress:
        name = config.environment.name
        return ingest_tasks(config.tasks, environment=name, seed=config.tasks.seed, progress=progress).tasks


def _find_task(tasks: Sequence[Task], task_id: str | None) -> Task:
    """Return the task of this id, or the first train task. Raises TaskError if there is none."""
    if task_id is None:
        return next((task for task in tasks if task.split == "train"), tasks[0])
    if found := next((task for task in tasks if task.id == task_id), None):
        return found
    fix = f"give the id of one, such as {tasks[0].id}, or no --task"
    raise TaskError(f"there is no task {task_id!r}", where="--task", fix=fix)


def _attempt(given: str) -> str | list[object]:
    """Return the text or the messages that `--attempt` means. Raises RlftError for a file that cannot be read."""
    if len(given) > _LONGEST_NAME or "\0" in given:
        return given
    path = Path(given)
    try:
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            return json.loads(text) if path.suffix == ".json" and text.lstrip().startswith("[") else text
    except (OSError, ValueError) as error:
        fix = "give UTF-8 text, or messages as JSON"
        raise RlftError(f"{given} cannot be read: {error}", where="--attempt", fix=fix) from error
    if _looks_like_a_file(given):
        fix = "name a file that is there; for an attempt that says just this, put it into one"
        raise RlftError(f"there is no file {given}", where="--attempt", fix=fix)
    return given


def _looks_like_a_file(given: str) -> bool:
    """Return whether a text without white space is a path by its suffix, or by how it begins."""
    is_one = bool(given) and not any(map(str.isspace, given)) and not given.startswith(("{", "[", "<"))
    return is_one and (given.startswith(("/", "./", "../", "~/")) or Path(given).suffix.lower() in _SUFFIXES)


def _show_cases(criteria: int, results: list[CaseResult], failed: list[CaseResult]) -> None:
    for each in failed:
        console.print(styled(str(each), "red"))
    waiting = sum(each.problem is None for each in results)
    ran = len(results) - waiting
    usable = "1 criterion" if criteria == 1 else f"{criteria} criteria"
    held = f"{ran - len(failed)} of {ran} cases that were run hold" if ran else "no case was run"
    console.print(f"{usable} can be used, and {held}.")
    if waiting:
        named = "case names a task" if waiting == 1 else "cases name tasks"
        console.print(styled(f"{waiting} more {named}, which --tasks reads.", "yellow"))


def _case_as_json(result: CaseResult) -> dict[str, Any]:
    holds = None if result.problem is None else not result.failed
    told = {"holds": holds, "problem": result.problem or None, "reason": result.case.reason}
    return {"case": result.number, "total": result.total, **told}
