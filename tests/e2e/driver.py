"""Run the command line in this process, and kill it with SIGKILL when a function is called for the n-th time.

    python -m tests.e2e.driver steps.train_grpo:train_round:2 run config.yaml

A kill inside a step is what a machine that dies leaves behind: no clean-up code runs.
"""

import importlib
import os
import signal
import sys


def kill_at(target: str) -> None:
    """Replace `module:function` (or `module:Class.method`) by one that counts its calls and dies at the n-th."""
    module_name, function_name, count = target.split(":")
    *parents, function_name = function_name.split(".")
    holder = importlib.import_module(module_name)
    for parent in parents:
        holder = getattr(holder, parent)
    original = getattr(holder, function_name)
    calls = 0

    def dying(*args, **kwargs):
        nonlocal calls
        calls += 1
        if calls == int(count):
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **kwargs)

    setattr(holder, function_name, dying)


if __name__ == "__main__":
    from cli.__main__ import console_script
    from mlops.home.folder import find_home
    from mlops.home.variables import quieten
    from mlops.stacks.stack import connect

    target, *arguments = sys.argv[1:]
    if target != "-":
        quieten(False)
        connect(find_home(), None)
        kill_at(target)
    console_script(arguments)
