"""`rlft review RUN`: attempts of a round put into a review queue of MLflow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from cli.guard import guarded
from cli.options import ResultAsJson, Verbose
from cli.review.reviewed import open_run
from mlops.display.terminal import console
from rlft.errors import RlftError

if TYPE_CHECKING:
    from mlops.review.asking import Asked


def ask(
    run: Annotated[str, typer.Argument(help="Id or name of a run, or the beginning of either.")],
    round: Annotated[
        int | None, typer.Option(min=0, help="Number of a round, from 0. Without it the last one.")
    ] = None,
    highest: Annotated[int, typer.Option(min=0, help="So many of the highest-paid attempts.")] = 20,
    disputed: Annotated[int, typer.Option(min=0, help="So many of those whose parts contradict one another.")] = 10,
    random: Annotated[int, typer.Option(min=0, help="So many attempts by chance.")] = 10,
    reviewer: Annotated[
        list[str] | None, typer.Option(help="A user of MLflow whose queue it is, too; can be given several times.")
    ] = None,
    stack: Annotated[str | None, typer.Option(help="The ZenML stack that the run used, if any.")] = None,
    as_json: ResultAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Put the highest-paid, the most disputed and random attempts of a round into MLflow's review queue.

    People say there what an attempt deserves, and what would have been right; `rlft review collect` brings it back.
    Asking again adds nothing that is there already.
    """
    with guarded(verbose, None):
        reviewed = open_run(run, stack)
        if not reviewed.rounds:
            raise RlftError(f"{reviewed.name} has trained no round", where="RUN", fix="review a run that has")
        number = reviewed.rounds - 1 if round is None else round
        from mlops.review.asking import ask_people
        from mlops.runs.results import load_round
        from rlft.review.choosing import choose

        scored = load_round(reviewed.run, str(number))
        if scored.rewards is None:
            raise RlftError(f"round {number} of {reviewed.name} has no rewards", where="--round", fix="take another")
        chosen = choose(scored.rollouts, scored.rewards, highest=highest, disputed=disputed, random=random)
        if not chosen:
            raise RlftError(f"round {number} has no attempt with a score", where="--round", fix="take another one")
        where = (reviewed.address, reviewed.experiment_id, reviewed.run_id)
        queue = f"{reviewed.name} {scored.name}"
        asked = ask_people(*where, queue, chosen, scored, reviewed.tasks, reviewer or ())
        reasons = Counter(each.reason for each in chosen)
        if as_json:
            console.write_json({"queue": asked.queue, "items": asked.items, "added": asked.added, "chosen": reasons})
        else:
            _show(asked, reasons, run)


def _show(asked: Asked, reasons: Mapping[str, int], run: str) -> None:
    kinds = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    console.print(f"The review queue {asked.queue!r} has {asked.items} attempts, {asked.added} of them new.")
    console.print(f"They were chosen as {kinds}. In MLflow (`rlft ui`) they are under Review, in the experiment.")
    console.print(f"`rlft review collect {quote(run)}` brings back what people said.")
