"""Run the command line in this process, and kill it with SIGKILL when a function is called for the n-th time.

    python -m tests.e2e.driver rlft.training.job:train_round:2 run config.yaml

A kill inside a step is what a machine that dies leaves behind: no clean-up code runs. With a text and a file after an
`=`, as in `rlft.training.job:train_round:2=denied=FILE`, the text is written there in place of a kill; `=kill=PID`
kills the group of another process, and `=fail=TEXT` raises.
"""

import importlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path


def kill_at(target: str) -> None:
    """Replace `module:function` (or `module:Class.method`) by one that counts its calls and dies at the n-th."""
    act_at(target, lambda: os.kill(os.getpid(), signal.SIGKILL))


def act_at(target: str, act: Callable[[], object]) -> None:
    """Replace `module:function` by one that counts its calls and does something before the n-th."""
    module_name, function_name, count = target.split(":")
    *parents, function_name = function_name.split(".")
    holder = importlib.import_module(module_name)
    for parent in parents:
        holder = getattr(holder, parent)
    original = getattr(holder, function_name)
    calls = 0

    def acting(*args, **kwargs):
        nonlocal calls
        calls += 1
        if calls == int(count):
            act()
        return original(*args, **kwargs)

    setattr(holder, function_name, acting)


def fail(text: str) -> None:
    """Raise an error that nobody foresees."""
    raise RuntimeError(text)


if __name__ == "__main__":
    from cli.__main__ import console_script
    from mlops.home.folder import find_home
    from mlops.home.variables import quieten
    from mlops.stacks.stack import connect

    target, *arguments = sys.argv[1:]
    if target != "-":
        quieten(False)
        connect(find_home(), arguments[arguments.index("--stack") + 1] if "--stack" in arguments else None)
        place, _, written = target.partition("=")
        if written:
            text, _, file = written.partition("=")
            acts = {
                "kill": lambda: os.killpg(int(file), signal.SIGKILL),
                "fail": lambda: fail(file),
            }
            act_at(place, acts.get(text, lambda: Path(file).write_text(text)))
        else:
            kill_at(place)
    console_script(arguments)
