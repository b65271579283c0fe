"""`rlft evaluate`: attempt a suite with several models, and compare them."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from cli.evaluated import finish_evaluation
from cli.guard import guarded
from cli.options import Overrides, Stack, Summary, SummaryAsJson, Verbose
from cli.start import check_kept, say_start
from mlops.home.folder import find_home
from mlops.tracking.address import HOME
from rlft.errors import ConfigError

_FORMS = (
    "Hub name, folder, models:/NAME@ALIAS, models:/NAME/VERSION, RUN:best, RUN:base, RUN:start, RUN:round=20, or "
    "openai:MODEL@URL."
)


def evaluate(
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help=_FORMS)],
    suite: Annotated[
        Path, typer.Option(help="A suite, such as configs/suites/demo.yaml, or a config; see docs/guide/evaluation.md.")
    ],
    overrides: Overrides = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="Name of the environment variable that holds the key of openai:MODEL@URL.")
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Attempt everything again, even where its result is stored.")
    ] = False,
    as_json: SummaryAsJson = False,
    stack: Stack = None,
    summary: Summary = None,
    verbose: Verbose = False,
) -> None:
    """Evaluate models on a suite: the same tasks, prompts and seeds for all of them.

    What was evaluated before is taken from the cache, so that another model costs no more than its own attempts. The
    exit code is 0 if it finished, whatever the models came to, 1 if it failed, and 2 if the set-up cannot work.
    """
    with guarded(verbose, summary) as begun:
        from rlft.config.file import check_suite_variables, load_suite
        from rlft.evaluation.model_names import labels_of, parse_model
        from rlft.texts.secrets import require

        home = find_home()
        settings = load_suite(suite, overrides)
        given = [parse_model(model) for model in models]
        labels_of(given)
        key = _key(api_key_env)
        if stack is None:
            check_suite_variables(settings)
            require(key, "--api-key-env")
        say_start(settings.name)
        check_kept(home)
        from mlops.stacks.stack import connect
        from pipelines.models import check_models

        tracking_uri = connect(home, stack)
        if stack is None:
            check_models(home, given, tracking_uri)
        from mlops.stacks.image import pod_options
        from pipelines.evaluate import evaluate as pipeline

        begun.repeated, name = True, f"{settings.name}-evaluate-{datetime.now():%Y%m%d-%H%M%S-%f}"
        named = pipeline.with_options(run_name=name, **pod_options(settings))
        if no_cache:
            named = named.with_options(enable_cache=False)
        address = tracking_uri if stack else HOME
        named(suite=settings.model_dump(mode="json"), models=list(models), tracking_uri=address, api_key=key)
        finish_evaluation(home.run_folder(name, shared=stack is not None), summary, stack, as_json=as_json)


def _key(variable: str | None) -> str | None:
    """Return `env:NAME`. Raises ConfigError for what is no name of a variable."""
    if variable is None:
        return None
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
        raise ConfigError(
            "this is no name of an environment variable (its value must not stand here)",
            where="--api-key-env",
            fix="write --api-key-env OPENAI_API_KEY, and export that variable",
        )
    return f"env:{variable}"
