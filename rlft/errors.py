"""One policy for what goes wrong: a bad rollout is data with a fate, a bad set-up is an error that says what to do.

Every `RlftError` carries the place (`where`), what is wrong (`what`) and the way out (`fix`), so the command line can
print three lines instead of a traceback.
"""

from __future__ import annotations

from collections.abc import Sequence


class RlftError(Exception):
    """A set-up that cannot work. The command line prints it and exits with `exit_code`."""

    exit_code = 2

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        super().__init__(what, where, fix)
        self.what, self.where, self.fix = what, where, fix

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        way_out = f"\n  what to do: {self.fix}" if self.fix else ""
        return f"{place}{self.what}{way_out}"


class NotReadyError(RlftError):
    """What keeps a run from starting, all of it at once; `problems` are the single errors."""

    def __init__(self, problems: Sequence[RlftError]) -> None:
        self.problems = tuple(problems)
        if len(problems) == 1:
            [one] = problems
            super().__init__(one.what, where=one.where, fix=one.fix)
            return
        listed = "\n".join(str(problem) for problem in problems).replace("\n", "\n  ")
        super().__init__(f"{len(problems)} things keep this run from starting:\n  {listed}")


class ConfigError(RlftError):
    """A setting that is unknown, of the wrong type, or impossible beside another one."""


class TaskError(RlftError):
    """Task rows that cannot be read or do not have what the environment needs."""


class EnvironmentSetupError(RlftError):
    """An environment that cannot be imported or built."""


class SandboxError(RlftError):
    """A sandbox that failed itself, as opposed to the program inside."""


class PolicyError(RlftError):
    """A model, tokenizer or policy folder that cannot be loaded."""


class WeightsRemovedError(PolicyError):
    """A policy of an old round whose weights `policy.keep` has removed, and which is needed after all."""


class EngineError(RlftError):
    """An engine that does not start, cannot be reached, or does not sample with the policy's weights."""


class RewardError(RlftError):
    """A reward whose totals cannot be compared with each other."""


class RewardAuditError(RlftError):
    """The reward pays something that is no answer as well as it pays the gold answer."""


class StackError(RlftError):
    """A ZenML stack that cannot run the pipeline."""


class StorageError(RlftError):
    """An artifact that could not be written or read whole."""

    exit_code = 1
