"""Environments for programming tasks, scored by tests: HumanEval (arXiv:2107.03374) and MBPP (arXiv:2108.07732).

The hidden tests decide, not the ones that the model sees, and they run in another process than the model's code.

- `environment`: the environments
- `tasks`, `answers`: the tests of a row, and the code in an answer
- `running`: connects the two sandboxes; `judge` and `subject` are the programs in them, `values` what they exchange
"""

from rlft.environments.code.environment import MBPP, CodeEnv, HumanEval

__all__ = ["MBPP", "CodeEnv", "HumanEval"]
