"""`tests.e2e.driver` with a checkpoint after every step of supervised training, and a count of the steps of each stage.

    python -m tests.e2e.checkpointed rlft.training.imitation:Imitator.step:60 resume NAME

What the process did is added to the file `steps`, a line a step: the number of the step and what bounds it.
"""

import sys

from cli.__main__ import main
from mlops.home.folder import find_home
from mlops.home.variables import quieten
from mlops.stacks.stack import connect
from tests.e2e.driver import kill_at

if __name__ == "__main__":
    quieten(False)
    connect(find_home(), None)
    from rlft.training.checkpoint import Budget, Checkpoints
    from rlft.training.imitation import Imitator

    Checkpoints.__init__.__kwdefaults__.update(every_seconds=0.0, share=1e9)
    step, of, units = Imitator.step, Budget.of, []

    def counting(imitator, *given):
        step(imitator, *given)
        with open("steps", "a") as file:
            file.write(f"{units[-1]} {imitator.state.steps}\n")

    def remembering(*amounts):
        units.append(of(*amounts).unit)
        return of(*amounts)

    Imitator.step, Budget.of = counting, remembering
    target, *arguments = sys.argv[1:]
    if target != "-":
        kill_at(target)
    main(arguments)
