"""`rlft review`: people asked about attempts of a run in MLflow, and what they said brought back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from cli.guard import guarded
from cli.options import AnyRun, ResultAsJson, UsedStack, Verbose
from mlops.home.folder import find_home
from rlft.config.yaml_text import write_yaml
from rlft.errors import RlftError
from rlft.files import write_file
from rlft.reporting.terminal import console, styled

if TYPE_CHECKING:
    from mlops.runs.results import Run
    from rlft.types import Task

GOLDS, CASES, PAIRS = "golds.jsonl", "cases.yaml", "pairs.jsonl"


class _AskByDefault(TyperGroup):
    """Takes what is no command for the arguments of `ask`."""

    default = "ask"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [self.default, *args]
        return super().parse_args(ctx, args)


def ask(
    run: AnyRun,
    round: Annotated[
        int | None, typer.Option(min=0, help="Number of a round, from 0. Without it the last one.")
    ] = None,
    highest: Annotated[int, typer.Option(min=0, help="So many of the highest-paid attempts.")] = 20,
    random: Annotated[int, typer.Option(min=0, help="So many attempts by chance.")] = 10,
    reviewer: Annotated[
        list[str] | None, typer.Option(help="A user of MLflow whose queue it is, too; can be given several times.")
    ] = None,
    stack: UsedStack = None,
    as_json: ResultAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Put the highest-paid and random attempts of a round into MLflow's review queue.

    People say there what an attempt deserves, and what would have been right; `rlft review collect` brings it back.
    Asking again adds nothing that is there already.
    """
    with guarded(verbose, None):
        reviewed = _open_run(run, stack)
        if not reviewed.rounds:
            raise RlftError(f"{reviewed.name} has trained no round", where="RUN", fix="review a run that has")
        number = reviewed.rounds - 1 if round is None else round
        from mlops.runs.results import load_round
        from mlops.runs.review import ask_people
        from rlft.rewards.review import choose

        scored = load_round(reviewed.run, str(number))
        if scored.rewards is None:
            raise RlftError(f"round {number} of {reviewed.name} has no rewards", where="--round", fix="take another")
        chosen = choose(scored.rollouts, scored.rewards, highest=highest, random=random)
        if not chosen:
            raise RlftError(f"round {number} has no attempt with a score", where="--round", fix="take another one")
        where = (reviewed.address, reviewed.experiment_id, reviewed.run_id)
        queue = f"{reviewed.name} {scored.name}"
        asked = ask_people(*where, queue, chosen, scored, reviewed.tasks, reviewer or ())
        reasons = Counter(each.reason for each in chosen)
        if as_json:
            console.write_json({"queue": asked.queue, "items": asked.items, "added": asked.added, "chosen": reasons})
            return
        kinds = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
        console.print(f"The review queue {asked.queue!r} has {asked.items} attempts, {asked.added} of them new.")
        console.print(f"They were chosen as {kinds}. In MLflow (`rlft ui`) they are under Review, in the experiment.")
        console.print(f"`rlft review collect {quote(run)}` brings back what people said.")


def collect(
    run: AnyRun,
    output: Annotated[
        Path | None, typer.Option(help="Folder for the files. Without it a folder of the run's name here, -review.")
    ] = None,
    stack: UsedStack = None,
    as_json: ResultAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Write what people said in the review queues of a run into files that rlft reads.

    golds.jsonl has right answers by task, cases.yaml cases for a specification, and pairs.jsonl pairs of attempts with
    the better one, for `training.algorithm: dpo`. Where a run has several environments each has a folder of its own, as
    each has a reward of its own. Files of an earlier time are replaced.
    """
    with guarded(verbose, None):
        reviewed = _open_run(run, stack)
        from mlops.runs.results import load_round
        from mlops.runs.review import collect as collected
        from rlft.rewards.review import by_environment, cases, golds, preferences

        where = (reviewed.address, reviewed.experiment_id, reviewed.name)
        found = collected(*where, lambda number: load_round(reviewed.run, number), reviewed.tasks)
        if not found.queues:
            raise RlftError(f"{reviewed.name} has no review queue", where="RUN", fix=f"`rlft review {run}` makes one")
        files, split = dict[str, int](), list[str]()
        for name, opinions in by_environment(found.opinions).items():
            rows, undecided = golds(opinions)
            folder = (output or Path(f"{reviewed.name}-review")) / name
            files |= write_reviews(folder, rows, cases(opinions), preferences(opinions))
            split += undecided
        if as_json:
            counts = {"opinions": len(found.opinions), "waiting": found.waiting}
            console.write_json({**counts, "files": files, "split": split, "unread": found.unread})
            return
        said, left = _many(len(found.opinions), "opinion"), _many(found.waiting, "attempt")
        console.print(f"People gave {said}, and {left} {'is' if found.waiting == 1 else 'are'} waiting.")
        for name, count in files.items():
            console.print(f"{name}: {count}")
        if split:
            console.print(f"As many people gave one answer as another to {', '.join(split)}: these have no row.")
        for each in found.unread:
            console.print(styled(f"It was left out: {each}", "red"))


def write_reviews(
    folder: Path,
    golds: Sequence[Mapping[str, Any]],
    cases: Sequence[Mapping[str, Any]],
    pairs: Sequence[Mapping[str, Any]],
) -> dict[str, int]:
    """Write a file for each kind of which there is any; returns {path: how many it has}."""
    lines = {GOLDS: golds, PAIRS: pairs}
    texts = {
        name: "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        for name, rows in lines.items()
        if rows
    }
    if cases:
        texts[CASES] = write_yaml({"cases": list(cases)})
    if texts:
        folder.mkdir(parents=True, exist_ok=True)
    counts = {GOLDS: len(golds), CASES: len(cases), PAIRS: len(pairs)}
    for name, text in texts.items():
        write_file(folder / name, text)
    return {str(folder / name): counts[name] for name in texts}


@dataclass(frozen=True, slots=True)
class _Reviewed:
    """A run, where MLflow has it, how many rounds it has trained, and its tasks by their ids."""

    name: str
    address: str
    experiment_id: str
    run_id: str
    rounds: int
    tasks: Mapping[str, Task]
    run: Run


def _open_run(run: str, stack: str | None) -> _Reviewed:
    """Find a run by its id or name. Raises RlftError for one that is not there, or that MLflow does not know."""
    home = find_home()
    from mlops.stacks.stack import connect

    address = connect(home, stack)
    from mlflow import MlflowClient

    from mlops.runs import results as rollouts
    from mlops.tracking.address import answering

    found = rollouts.open_run(home, run, stack)
    summary, tasks = found.summary(), rollouts.stored_tasks(found)
    if summary is None or summary.mlflow_run_id is None or tasks is None:
        raise RlftError(
            f"{found.name} has no run in MLflow, where people would read its attempts",
            where="RUN",
            fix="`rlft runs` lists the runs; one that is under way can be reviewed when it has ended",
        )
    with answering(address):
        known = MlflowClient(tracking_uri=address).get_run(summary.mlflow_run_id)
    ids = known.info.experiment_id, known.info.run_id
    return _Reviewed(found.name, address, *ids, summary.rounds, tasks.by_id(), found)


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


app = typer.Typer(
    cls=_AskByDefault,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Ask people about attempts of a run in MLflow's review queue, and bring back what they said.",
)
for command in (ask, collect):
    app.command()(command)
