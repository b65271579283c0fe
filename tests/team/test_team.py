"""What the guide of a team says, against what its people have typed: the last file, after all others."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.e2e.conftest import ROOT
from tests.team.users import Member

pytestmark = [pytest.mark.timeout(7200), pytest.mark.slow]
NOT_RUN = (
    "cp",
    "docker",
    "export",
    "make",
    "for",
    "rm",
    "umask",
)  # there is no Docker here; `tests/test_compose.py` reads what it would do


def test_every_command_of_the_guide_is_one_that_was_given_here():
    page = (ROOT / "docs" / "guide" / "team.md").read_text()
    blocks = re.findall(r"^```bash\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    commands = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    assert len(commands) > 15
    for command in commands:
        if command[0] not in NOT_RUN:
            assert any(shape(command) <= shape(given) for given in Member.typed if begins_alike(command, given)), (
                command
            )


def shape(command: list[str]) -> set[str]:
    """The program of a command, and its options without their values."""
    return {command[0], *(word.split("=")[0] for word in command[1:] if word.startswith("-"))}


def begins_alike(command: list[str], other: list[str]) -> bool:
    """Whether two commands have the same words up to what a person chooses."""
    count = {"zenml": 2 if command[1] == "login" else 3, "curl": 1}.get(command[0], 2)
    return command[:count] == other[:count]
