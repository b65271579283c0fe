"""The errors that rlft raises for a set-up that cannot work.

A rollout that goes wrong is no error but data with a fate (`rlft.outcome`). Every `RlftError` carries the place
(`where`), what is wrong (`what`) and what to do about it (`fix`), so that the command line prints these instead of a
traceback. `shortage_of` tells from any error that the machine has run out of something: libraries wrap what the
operating system says, so the whole chain of an error is looked through, its texts too.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Any, Literal


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

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to make the error again in another process: `__init__` takes its arguments by name."""
        return _made_again, (type(self), self.args, self.__dict__)


def _made_again(kind: type[RlftError], arguments: tuple[Any, ...], attributes: dict[str, Any]) -> RlftError:
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(attributes)
    return error


class NotReadyError(RlftError):
    """All that keeps a run from starting, in one error; `problems` are the single errors."""

    def __init__(self, problems: Sequence[RlftError]) -> None:
        self.problems = tuple(problems)
        if len(problems) == 1:
            [one] = problems
            super().__init__(one.what, where=one.where, fix=one.fix)
            return
        listed = "\n".join(str(problem) for problem in problems).replace("\n", "\n  ")
        super().__init__(f"{len(problems)} things keep this run from starting:\n  {listed}")


class ConfigError(RlftError):
    """A setting that is unknown, of the wrong type, or contradicts another one."""


class FixedSettingError(ConfigError):
    """A setting that cannot work with the tasks of its run. `rlft resume` keeps both, so that it would fail again."""


class TaskError(RlftError):
    """Task rows that cannot be read or do not have what the environment needs."""


class EnvironmentSetupError(RlftError):
    """An environment, or a sandbox that it needs, that cannot be imported, built or used as it is."""


class SandboxError(RlftError):
    """A sandbox that has failed itself, as opposed to the program inside."""


class PolicyError(RlftError):
    """A model, tokenizer, chat template or policy folder that cannot be loaded or used."""


class WeightsRemovedError(PolicyError):
    """A policy of an old round that is needed although `policy.keep` has had its weights removed."""


class EngineError(RlftError):
    """An engine that does not start, cannot be reached, or does not sample with the policy's weights."""


class RewardError(RlftError):
    """A reward whose totals cannot be compared with each other."""


class JudgeGoneError(RewardError):
    """A judge that has not answered so often in a row that it is not asked any more."""

    exit_code = 1


class RewardAuditError(RlftError):
    """A reward that pays something that is no answer as well as it pays the gold answer."""


class StackError(RlftError):
    """A ZenML stack that cannot run the pipeline."""


class TrackerError(RlftError):
    """A tracker or a registry that does not answer, or does not take what it is given; the run itself is done."""

    exit_code = 5


class RefusedError(RlftError):
    """A decision about a registered model that what the registry holds does not allow."""

    exit_code = 6


class ServerEndedError(RlftError):
    """A server that was running, and that nobody has told to end."""

    exit_code = 1


class MemoryShortError(RlftError):
    """A stage that asked for more memory than a machine or its GPU has."""

    exit_code = 1


class DistributedError(RlftError):
    """A process of several that train together that does not start, has died, or hangs."""

    exit_code = 1


class StorageError(RlftError):
    """An artifact that could not be written or read completely."""

    exit_code = 1


class DamagedError(StorageError):
    """A stored artifact that is not what was stored: `where` is the file. `run` and `step` are those that stored it."""

    def __init__(self, what: str, *, where: str, run: str = "", step: str = "") -> None:
        unknown = "`rlft run --no-cache` makes it again, with all that comes before it"
        again = f"`rlft resume {quote(run)}` makes it again ({step}), and keeps everything before it"
        super().__init__(what, where=where, fix=again if run and step else unknown)
        self.run, self.step = run, step

    def of(self, run: str, step: str) -> DamagedError:
        """Return the same error for a run that was given the artifact as the result of this step."""
        return DamagedError(self.what, where=self.where, run=run, step=step)


class FormatVersionError(RlftError):
    """Something that another rlft has stored, in a format that this one does not read (`rlft.types.formats`)."""

    def at(self, where: str) -> FormatVersionError:
        """Return the same error with its place, for what was read without knowing that."""
        return FormatVersionError(self.what, where=self.where or where, fix=self.fix)


Shortage = Literal["disk", "memory", "gpu"]

SAID: dict[Shortage, str] = {
    "disk": "nothing more can be written: the disk is full, or has become read-only",
    "memory": "there is too little memory",
    "gpu": "there is too little memory",
}
"""What is said of each."""
_BY_NUMBER: dict[int, Shortage] = {
    errno.ENOSPC: "disk",
    errno.EDQUOT: "disk",
    errno.EROFS: "disk",
    errno.ENOMEM: "memory",
}
_BY_TEXT: dict[str, Shortage] = {
    "database or disk is full": "disk",
    "no space left on device": "disk",
    "disk quota exceeded": "disk",
    "attempt to write a readonly database": "disk",
    "read-only file system": "disk",
    "cuda out of memory": "gpu",
    "cuda error: out of memory": "gpu",
    "hip out of memory": "gpu",
    "can't allocate memory": "memory",
    "not enough memory: you tried to allocate": "memory",
}
_MOST = 20  # errors of a chain that are looked at


def shortage_of(error: BaseException) -> Shortage | None:
    """Return what the machine has run out of, if that is what an error or one of its causes says."""
    for each in _chain(error):
        if isinstance(each, MemoryError):
            return "memory"
        if isinstance(each, OSError) and each.errno in _BY_NUMBER:
            return _BY_NUMBER[each.errno]
        text = str(each).lower()
        for words, kind in _BY_TEXT.items():
            if words in text:
                return kind
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, what it was raised from, and what was being handled when it was raised."""
    waiting, seen = [error], set()
    while waiting and len(seen) < _MOST:
        each = waiting.pop(0)
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += [cause for cause in (each.__cause__, each.__context__) if cause is not None]
