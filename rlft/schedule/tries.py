"""What follows from the exit code of a scheduled run: it is over, it is tried again, or it has failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rlft.schedule.settings import RetriesConfig

FINISHED = (0, 3, 4)  # trained and evaluated; too hard; solved already
NOT_REGISTERED, UNUSABLE, INTERRUPTED = 5, 2, 130
_MEANINGS = {
    0: "it finished",
    1: "it failed",
    UNUSABLE: "its set-up cannot work",
    3: "its tasks are too hard",
    4: "its tasks are solved already",
    NOT_REGISTERED: "MLflow did not take its model",
    129: "its terminal was closed",
    INTERRUPTED: "it was interrupted by Ctrl-C",
    137: "it was killed",
    143: "it was ended by SIGTERM",
}


@dataclass(frozen=True, slots=True)
class Next:
    """What follows a try: the firing is `finished` or `failed`, or there is another try after `wait_seconds`."""

    what: Literal["finished", "failed", "again"]
    sentence: str
    wait_seconds: float = 0.0


def after_try(code: int, tries: int, retries: RetriesConfig, *, hopeless: bool = False) -> Next:
    """Return what follows a try that ended with this exit code, the last of `tries`.

    `code` is as shells have it: 128 and the number of the signal that ended the process. `hopeless` says that another
    try would fail again, since a setting cannot work with the tasks.
    """
    meaning = _MEANINGS.get(code, f"it ended with exit code {code}")
    if code in FINISHED:
        return Next("finished", meaning)
    if code == UNUSABLE or hopeless:
        return Next("failed", f"{meaning}, and would not the next time")
    if code == INTERRUPTED:
        return Next("failed", f"{meaning}, and is not tried again")
    if tries > retries.count:
        return Next("failed", f"{meaning}" + (f", the last of {tries} tries" if tries > 1 else ""))
    return Next("again", meaning, wait_seconds(tries, retries))


def wait_seconds(tries: int, retries: RetriesConfig) -> float:
    """Return how many seconds lie between try number `tries` (from 1) and the next one."""
    longest = retries.longest_wait_minutes
    # The exponent is bounded: a factor of 100 overflows a float at the 155th try, long after any longest wait.
    return 60.0 * min(longest, retries.wait_minutes * retries.factor ** min(tries - 1, 100))
