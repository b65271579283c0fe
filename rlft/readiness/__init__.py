"""What can be known of an experiment before anything of it is started: engine, tasks, environment, model, disk.

Nothing here imports torch or transformers at its beginning: that a set-up cannot work is to be told in a second. A
check raises only for what the run itself would refuse later; what cannot be known yet is left to the run.
"""

from rlft.readiness.experiment import find_problems

__all__ = ["find_problems"]
