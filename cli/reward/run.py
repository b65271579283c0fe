"""`rlft reward run`: one attempt scored by a written reward, with the reason of every score."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from cli.guard import guarded
from cli.options import ConfigPath, Overrides, ResultAsJson, Verbose
from cli.reward.opened import find_task, open_reward, specification_in, tasks_of
from cli.reward.tried import try_attempt
from rlft.config.file import load_config
from rlft.errors import RlftError
from rlft.reporting.terminal import console

_LONGEST_NAME, _LARGEST_FILE = 1000, 16 << 20  # characters, bytes
_SUFFIXES = (".json", ".jsonl", ".txt", ".md")


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
        specification_in(settings)
        given = _attempt(attempt)
        environment = open_reward(settings)
        tried = try_attempt(settings, environment, given, find_task(tasks_of(settings), task))
        if as_json:
            console.write_json(tried.to_json())
            return
        console.print(f"Task {tried.task.id}: {tried.task.text}\n")
        tried.show()


def _looks_like_a_file(given: str) -> bool:
    """Return whether a text without white space is a path by its suffix, or by how it begins."""
    is_one = bool(given) and not any(map(str.isspace, given)) and not given.startswith(("{", "[", "<"))
    return is_one and (given.startswith(("/", "./", "../", "~/")) or Path(given).suffix.lower() in _SUFFIXES)


def _attempt(given: str) -> str | list[object]:
    """Return the text or the messages that `--attempt` means. Raises RlftError for a file that cannot be read."""
    if len(given) > _LONGEST_NAME or "\0" in given:
        return given
    path = Path(given)
    if not path.is_file():
        if _looks_like_a_file(given):
            raise RlftError(
                f"there is no file {given}",
                where="--attempt",
                fix="name a file that is there; for an attempt that says just this, put it into one",
            )
        return given
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise ValueError("it has more than 16 MiB")
        text = path.read_text(encoding="utf-8")
        return json.loads(text) if path.suffix == ".json" and text.lstrip().startswith("[") else text
    except (OSError, ValueError) as error:
        fix = "give UTF-8 text, or messages as JSON"
        raise RlftError(f"{given} cannot be read: {error}", where="--attempt", fix=fix) from error
