"""Checks an experiment before anything of it is started: its engine, tasks, environment, loss, model and disk.

No module here imports torch or transformers at its top, so that a broken set-up is reported within a second. A check
raises only for what the run itself would refuse later; what cannot be known yet is left to the run.
"""

from rlft.readiness.experiment import find_problems

__all__ = ["find_problems"]
