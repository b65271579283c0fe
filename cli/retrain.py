"""`rlft retrain`: other training on stored attempts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Annotated

import typer

from cli.guard import guarded
from cli.options import Overrides, RunName, Stack, Summary, SummaryAsJson, Verbose
from cli.replayed import finish_replay, labels_for, open_home, options_for
from cli.result import run_to_end, with_weights
from mlops.home.folder import find_home
from mlops.runs.store import as_parameter
from rlft.errors import ConfigError
from rlft.texts.secrets import redact

_SECTION = "training."
_SAMPLED = ("training.tasks_per_round", "training.num_generations")  # what the stored attempts have settled


def retrain(
    run: Annotated[str, typer.Argument(help="Id or name of a run whose attempts are trained on again.")],
    from_round: Annotated[
        int, typer.Option(min=0, help="Begin with the policy before this round; rounds count from 0.")
    ],
    overrides: Overrides = None,
    name: RunName = None,
    stack: Stack = None,
    summary: Summary = None,
    as_json: SummaryAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Train again on the stored attempts of a run, with other settings of `training`, and evaluate what comes of it.

    Attempts that another policy made are weighted (importance sampling). It says which way learns more from the same
    attempts, and nothing on exploration. No version is registered. The exit code is 0 if it finished, whatever the
    model came to, 1 if it failed, and 2 if the set-up cannot work.
    """
    with guarded(verbose, summary) as begun, ExitStack() as held:
        home = find_home()
        _check_keys(overrides or [])
        tracking_uri = open_home(home, run, stack, held)
        from pipelines.retrain import plan_retraining
        from pipelines.retrain import retrain as pipeline

        plan = plan_retraining(home, run, from_round, overrides or [])
        labels = labels_for("retrain", plan.source.name, name)
        arguments = {
            "config": as_parameter(plan.config),
            "source": plan.source.name,
            "from_round": from_round,
            "correction": plan.correction,
            "tracking_uri": tracking_uri,
            "labels": labels.model_dump(mode="json"),
        }
        options = options_for(home, plan.source, labels, arguments, plan.config)
        named = pipeline.with_options(**options)
        begin = partial(with_weights, partial(named, **arguments), named, arguments, options["run_name"])
        begun.repeated = True
        run_to_end(begin, begun)
        finish_replay(home.run_folder(labels.name, shared=stack is not None), summary, stack, as_json=as_json)


def _check_keys(overrides: Sequence[str]) -> None:
    """Raise ConfigError for an override that would need other attempts, or that is not about training."""
    for override in overrides:
        key = override.partition("=")[0]
        if key in _SAMPLED:
            raise ConfigError(
                f"{key} says what is sampled, and the attempts are those that the run has stored",
                where="--set",
                fix="leave it out; `rlft run` samples anew",
            )
        if not key.startswith(_SECTION):
            raise ConfigError(
                f"{redact(key)} is no setting of training, and all else stays as the run has it",
                where="--set",
                fix="set such as training.loss_type=dr_grpo; `rlft rescore` tells of another reward, and `rlft run` "
                "trains with other settings",
            )
