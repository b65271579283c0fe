"""Connect to a home, and die by SIGKILL after so many statements of its databases; 0 for a start that is left alone.

python -m tests.mlops.home.killed 400
"""

import os
import signal
import sys

from sqlalchemy import event
from sqlalchemy.engine import Engine

from mlops.home.folder import find_home
from mlops.home.variables import quieten
from mlops.stacks.stack import connect


def main(left: int) -> None:
    """Count the statements down."""

    def count(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "after_cursor_execute", count)
    quieten(False)
    connect(find_home(), None)


if __name__ == "__main__":
    main(int(sys.argv[1]))
