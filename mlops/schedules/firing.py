"""Looks after one schedule: finishes the run that was left, or carries out what is due, from its reason to its end.

What goes on is noted before it is begun, and a run holds the schedule's lock, which it inherits. So whatever ends this
process, the next one that looks when the run has ended takes what it came to, or resumes it. At the end stands what
waits for the times of all schedules, and starts such a process for each that is due; it knows their files alone.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tenacity import Retrying, retry_base, retry_if_exception, retry_if_result, stop_after_attempt, wait_exponential

from mlops.home.folder import PROJECT, SCHEDULES, Home
from mlops.runs.signals import signalled
from mlops.schedules import facts
from mlops.schedules.notify import events_of, message, tell
from mlops.schedules.reasons import Facts, Reason, score_reason, should_run
from mlops.schedules.settings import ScoreBelow, overrides_of
from mlops.schedules.store import (
    Firing,
    State,
    Stored,
    all_schedules,
    due_now,
    file_of,
    is_running,
    keep_state,
    locked,
    result_file,
    state_of,
)
from mlops.summary.summary import Summary
from rlft.errors import RlftError
from rlft.texts.secrets import hide

UNUSABLE, INTERRUPTED = 2, 130
KEPT = 200  # due times of a schedule, of which is noted what came of them
_FINISHED = (0, 3, 4)  # trained and evaluated; too hard; solved already


class Outcome(NamedTuple):
    """The exit code of a try, as shells have it, and its summary, if it has left one."""

    code: int
    summary: Summary | None

    @property
    def is_passing(self) -> bool:
        """Whether another try may come to another end."""
        is_hopeless = self.summary is not None and self.summary.needs_new_settings
        return self.code not in (*_FINISHED, UNUSABLE, INTERRUPTED) and not is_hopeless


@dataclass
class Watch:
    """What looks after a schedule, in the folder in which that was applied; `clock` and `sleep` are a test's in tests.

    `lock` is the descriptor of the schedule's lock.
    """

    home: Home
    stored: Stored
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    sleep: Callable[[float], None] = time.sleep
    say: Callable[[str], None] = lambda text: None
    lock: int | None = None

    def look(self) -> Firing | None:
        """Carry out what was left, or what is due now, and return what came of it; `None` if nothing was to be done."""
        with locked(self.home, self.stored.name) as self.lock:
            if self.lock is None:
                self.say(f"a run of {self.stored.name} goes on")
            elif (left := self._state.running) is not None:  # by a process that is gone
                self.say(f"the run {left.run} had begun, and goes on")
                return self._run(left)
            elif (due := due_now(self.stored, self._state, self.clock())) is not None:
                return self._fire(Firing(schedule=self.stored.name, due=due))
            return None

    def _fire(self, firing: Firing) -> Firing:
        try:
            reason, now = self._again(retry_if_exception(_is_passing))(self._judge)
        except Exception as error:  # sources of tasks raise what they like
            said = str(error) if isinstance(error, RlftError) else f"{type(error).__name__}: {error}"
            return self._end(firing, "failed", f"whether there is a reason could not be found out: {said}")
        if not reason.found:
            return self._end(firing, "no_reason", f"no reason to run: {reason.sentence}")
        self.say(f"a run begins: {reason.sentence}")
        self._result.unlink(missing_ok=True)  # what lies there is of another run
        name = f"{firing.schedule}-{firing.due.astimezone(UTC):%Y-%m-%d-%H%M%SZ}"
        return self._run(firing.model_copy(update={"reason": reason.sentence, "run": name}), facts=now)

    def _judge(self) -> tuple[Reason, Facts]:
        """Return whether there is a reason to run, and what the next look compares with if a run begins.

        Raises RlftError if that cannot be found out.
        """
        os.chdir(self.stored.folder)
        when, last = self.stored.schedule.when, self._state.facts
        now = facts.look(self.home, self.stored)
        reason = should_run(when, now, last)
        if last is None or when.score_below is None:
            return reason, now
        if not reason.found:
            below = self._by_score(when.score_below, last)
            reason = Reason(below.found, "; ".join(filter(None, [reason.sentence, below.sentence])))
            last = self._state.facts or last
        # Looks are counted anew with a run. The last score stays known, so that it is the reason of one run at most.
        return reason, replace(now, looks=replace(last.looks, count=0))

    def _by_score(self, below: ScoreBelow, last: Facts) -> Reason:
        """Return whether the score is a reason; nothing is evaluated that was looked at before."""
        if (asked := facts.asked_score(self.home, self.stored, below)) is None:
            return Reason(False, "there is no champion, whose score could be low")
        if asked.key == last.looks.key:
            return Reason(False, f"the score of {asked.model} on the same tasks was looked at before")
        if code := self.call("evaluate", asked.model, "--suite", below.suite, *self._ends()):
            error = RlftError(f"the evaluation of {asked.model} ended with exit code {code}", where="when.score_below")
            error.exit_code = code
            raise error
        score = facts.score_in(json.loads(self._result.read_text(encoding="utf-8")), asked)
        looks = last.looks.with_another(asked.model, asked.key)
        self._keep(facts=replace(last, looks=looks))  # now, as a look without a reason counts, too
        return score_reason(score, below.bound, looks)

    def _run(self, firing: Firing, **begun: Facts) -> Firing:
        """Run it, and again while that may help and the schedule allows it; return what came of it.

        `begun` is the `facts` that it begins with; one that was left has none.
        """
        self._keep(running=firing, **begun)
        again = self._again(retry_if_result(lambda outcome: outcome.is_passing))
        outcome = again(lambda: self._try(firing, is_begun=not begun or bool(firing.codes)))
        state = "finished" if outcome.code in _FINISHED else "failed"
        return self._end(firing, state, _came_to(outcome, len(firing.codes)), outcome.summary)

    def _try(self, firing: Firing, *, is_begun: bool) -> Outcome:
        """Run or resume it once, unless it has come to its end while nothing looked, and note how that ended."""
        if is_begun and (left := self._left()) and not (ended := Outcome(left.exit_code, left)).is_passing:
            return ended
        assert firing.run is not None
        schedule, outcome = self.stored.schedule, Outcome(UNUSABLE, None)
        due = f"{firing.due.astimezone(schedule.timezone):%Y-%m-%d %H:%M %Z}"
        said = f"due {due}: {firing.reason}"[:200]
        changes = [word for each in overrides_of(schedule) for word in ("--set", each)]
        begin = ("run", "--name", firing.run, "--tag", f"schedule={schedule.name}", "--tag", f"reason={said}", *changes)
        commands: list[tuple[str, ...]] = [(*begin, *self._ends(), "--", schedule.config)]  # may begin with a dash
        if is_begun:  # it was noted before it was begun, so that there may be nothing to resume yet
            commands.insert(0, ("resume", firing.run, *self._ends()))
        for command in commands:
            self._result.unlink(missing_ok=True)
            outcome = Outcome(self.call(*command), self._left())
            if outcome.code != UNUSABLE or (outcome.summary and outcome.summary.pipeline_run_id is not None):
                break
        firing.codes.append(outcome.code)
        self._keep(running=firing)
        return outcome

    def call(self, *words: str) -> int:
        """Run a command of rlft that holds the schedule's lock, and return its exit code as shells have it.

        A signal that interrupts this process is handed on to it, and the next look goes on.
        """
        assert self.lock is not None
        process = subprocess.Popen(
            rlft_command(*words),
            cwd=self.stored.folder,
            env=dict(os.environ) | variables(self.home),
            stdin=subprocess.DEVNULL,
            pass_fds=(self.lock,),
            start_new_session=True,  # Ctrl-C reaches it once, from here
        )
        try:
            code = process.wait()
        except KeyboardInterrupt:
            process.send_signal(signalled() or signal.SIGINT)
            process.wait()
            raise
        return code if code >= 0 else 128 - code

    def _ends(self) -> list[str]:
        stack = ["--stack", self.stored.schedule.stack] if self.stored.schedule.stack is not None else []
        return ["--summary", str(self._result), *stack]

    def _left(self) -> Summary | None:
        """Return the summary that the last try has left; `None` if it has left none."""
        try:
            return Summary.model_validate_json(self._result.read_bytes())
        except (OSError, ValueError):
            return None

    def _again(self, retry: retry_base) -> Retrying:
        """Return what tries a function again as the schedule's retries say."""
        retries = self.stored.schedule.retries
        return Retrying(
            stop=stop_after_attempt(retries.count + 1),
            wait=wait_exponential(60 * retries.wait_minutes, 4 * 3600),
            retry=retry,
            before_sleep=lambda state: self.say(f"it is tried again in {state.upcoming_sleep / 60:.0f} min"),
            retry_error_callback=lambda state: state.outcome and state.outcome.result(),
            sleep=self.sleep,
        )

    def _end(self, firing: Firing, state: str, said: str, summary: Summary | None = None) -> Firing:
        """Tell whom it concerns what came of a firing, and note it. A kill in between lets it be told twice."""
        found = {"state": state, "said": hide(said), "status": summary and summary.status, "ended": self.clock()}
        done = firing.model_copy(update=found)
        self.say(done.said)
        settings = self.stored.schedule.notify
        for event in events_of(done, summary):
            if event in settings.events and (problem := tell(settings, message(event, done, summary))):
                done.said += f"; {problem}"
        self._keep(running=None, looked=self.clock(), past=[done, *self._state.past][:KEPT])
        return done

    @property
    def _result(self) -> Path:
        return result_file(self.home, self.stored.name)

    @property
    def _state(self) -> State:
        return state_of(self.home, self.stored.name)

    def _keep(self, **changes: Any) -> None:
        keep_state(self.home, self.stored.name, self._state.model_copy(update=changes))


def rlft_command(*words: str) -> list[str]:
    """Return a command of rlft. With -P nothing is imported from the working directory before rlft itself."""
    return [sys.executable, "-P", "-m", "cli", *words]


def variables(home: Home) -> dict[str, str]:
    """Return the variables with which such a command finds rlft and its home."""
    path = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
    return {"PYTHONPATH": path, "RLFT_HOME": str(home.root)}


def _is_passing(error: BaseException) -> bool:
    """Return whether another look may find out what this one could not: errors of rlft say if a set-up cannot work."""
    return isinstance(error, Exception) and getattr(error, "exit_code", 1) not in (UNUSABLE, INTERRUPTED)


def _came_to(outcome: Outcome, tries: int) -> str:
    """Return what came of a run: its exit code, if that is not 0, and what its summary says."""
    said = "it finished" if outcome.code in _FINISHED else f"it failed with exit code {outcome.code}"
    said += f", the last of {tries} tries" if tries > 1 else ""
    if (summary := outcome.summary) is None:
        return said
    if summary.error:
        return f"{said}: {summary.error}"
    said += f", {summary.status.replace('_', ' ')}"
    if (promotion := summary.promotion).version is not None:
        became = "waits for a person to approve it" if promotion.approval == "pending" else "was not promoted"
        became = "became champion" if promotion.promoted else became
        said += f", version {promotion.version} of {promotion.name} {became}"
    return said


logger = logging.getLogger(__name__)
LOOK_SECONDS = 10  # so soon a due time and a change of the schedules are seen


def wait_and_start(home: Home, names: Sequence[str] = ()) -> None:
    """Start what is due at its time, of all schedules or of these, until an exception ends this. The runs go on."""
    begun: dict[str, subprocess.Popen[bytes]] = {}
    while True:
        start_due(home, names, begun)
        time.sleep(LOOK_SECONDS)


def start_due(home: Home, names: Sequence[str], begun: dict[str, subprocess.Popen[bytes]]) -> None:
    """Start what looks after each schedule that is due, or whose run was left by a process that is gone.

    `begun` are the processes by schedule. Each has a session of its own: Ctrl-C ends none.
    """
    for stored in all_schedules(home):
        name, state = stored.name, state_of(home, stored.name)
        is_due = state.running is not None or due_now(stored, state, datetime.now(UTC)) is not None
        goes_on = (name in begun and begun[name].poll() is None) or is_running(home, name)
        if not is_due or goes_on or (names and name not in names):
            continue
        log = file_of(home, name, ".log")
        with log.open("ab") as output:
            begun[name] = subprocess.Popen(
                rlft_command("schedule", "run", name, "--once"),
                env=dict(os.environ) | variables(home),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        logger.info("%s is due: what comes of it is in %s", name, log)


def crontab_line(home: Home) -> str:
    """Return the line of a crontab that begins the scheduler of a home after each start of the machine."""
    folder = home.root / SCHEDULES
    made, log = shlex.quote(str(folder)), shlex.quote(str(folder / "scheduler.log"))
    return f"@reboot mkdir -p {made} && {shlex.join(_call(home))} >> {log} 2>&1".replace("%", r"\%")


def systemd_unit(home: Home) -> str:
    """Return a service that begins the scheduler of a home, and begins it again should it be killed."""
    marks = str.maketrans({"\\": r"\\", '"': r"\"", "%": "%%", "$": "$$"})
    words = " ".join(f'"{word.translate(marks)}"' for word in _call(home))
    return f"""[Unit]
Description=rlft schedules

[Service]
ExecStart={words}
KillMode=process
Restart=on-abnormal
RestartSec=60

[Install]
WantedBy=default.target
"""


def _call(home: Home) -> list[str]:
    return ["/usr/bin/env", f"RLFT_HOME={home.root}", f"PYTHONPATH={PROJECT}", *rlft_command("schedule", "run")]
