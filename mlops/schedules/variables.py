"""Variables of a schedule, such as a webhook's address: lines `NAME=value` of a file beside the store.

They are read here, whatever looks at the schedule: a shell would run what stands in a value.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlops.home.folder import Home
from mlops.schedules.store import folder_of
from rlft.files import why_no_file

logger = logging.getLogger(__name__)
_LINE = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)=([^\0]*)")


def variables_file(home: Home, name: str) -> Path:
    """Return the file of the variables of a schedule, which need not be there."""
    return folder_of(home) / f"{name}.env"


def read_variables(file: Path) -> dict[str, str]:
    """Return the variables of a file; none if there is no file.

    A value is what stands behind the first `=`, without blanks and one pair of quotes around it: no sign in it means
    anything. Empty lines and those that begin with `#` or `;` are left out; so are others that are no variable, and a
    file that cannot be read, with a warning.
    """
    if file.exists() and (problem := why_no_file(file)):  # a pipe would be waited for
        logger.warning("the variables in %s cannot be read: %s", file, problem)
        return {}
    try:
        text = file.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return {}
    except OSError as cause:
        logger.warning("the variables in %s cannot be read: %s", file, cause.strerror)
        return {}
    found: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.lstrip().startswith(("#", ";")):
            continue
        if (parts := _LINE.fullmatch(line)) is None:
            logger.warning("%s, line %d: this is not NAME=value, and is left out", file, number)
            continue
        name, value = parts[1], parts[2].strip()
        is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
        found[name] = value[1:-1] if is_quoted else value
    return found


@contextmanager
def with_variables(home: Home, name: str) -> Iterator[None]:
    """Have the variables of a schedule in this process's environment, in the place of others of these names."""
    given = read_variables(variables_file(home, name))
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
