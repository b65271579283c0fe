"""`rlft reward import`: one of OpenAI's graders as a specification."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from cli.guard import guarded
from cli.options import ResultAsJson, Verbose
from rlft.config.yaml_text import write_yaml
from rlft.errors import ConfigError
from rlft.files import why_no_file
from rlft.reporting.terminal import console, errors

_JUDGE = "judge: {endpoint: ADDRESS, model: NAME}; without it the specification cannot be used."


def import_grader(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A JSON file with one of OpenAI's graders.")],
    as_json: ResultAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Print one of OpenAI's graders as a specification, in YAML."""
    with guarded(verbose, None):
        from rlft.rewards.specification.importing import import_grader as taken_over

        if problem := why_no_file(file):
            raise ConfigError(problem, where=str(file), fix="name a JSON file with a grader")
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except (ValueError, RecursionError, OSError) as error:
            raise ConfigError(f"it is not readable as JSON: {error}", where=str(file), fix="mend the file") from error
        taken = taken_over(content, where=str(file))
        specification = taken.model_dump(mode="json", exclude_defaults=True)
        if any(grader.needs_judge() for grader in taken.graders()):
            errors.print(f"It asks a judge, which you have to name: add {_JUDGE}")
            if not as_json:
                console.print(f"# Add {_JUDGE}", soft_wrap=True)
        if as_json:
            console.write_json(specification)
        else:
            console.print(write_yaml(specification, width=100), end="", soft_wrap=True)
