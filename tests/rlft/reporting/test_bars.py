"""Open stages in a terminal and in a log, on a clock that the test turns."""

from __future__ import annotations

import io
import logging

import pytest
from rich.logging import RichHandler

from rlft.reporting import bars as module
from rlft.reporting.bars import Display
from rlft.reporting.terminal import Terminal


class Clock:
    seconds = 0.0

    def __call__(self):
        return self.seconds


@pytest.fixture(autouse=True)
def quiet_logs():
    """Whatever another test has set."""
    logger = logging.getLogger("mlops")
    level = logger.level
    logger.setLevel(logging.INFO)
    yield
    logger.setLevel(level)


@pytest.fixture
def log(monkeypatch):
    """A display without a terminal, its clock, and what it wrote; nobody but the test looks."""
    monkeypatch.setattr(module, "_LOOK_SECONDS", 3600.0)
    clock, written = Clock(), io.StringIO()
    display = Display(Terminal(file=written, width=40), clock=clock)
    return display, clock, written


def test_a_line_each_half_minute_names_every_open_stage(log):
    display, clock, written = log
    with display.stage("training") as rounds:
        rounds(0, 10, "rounds")
        clock.seconds = 29
        with display.stage("rollouts r000"):
            display.report(0, 512, "rollouts")
            display.look()
            assert written.getvalue() == ""
            clock.seconds = 31
            display.report(8, 512, "rollouts")
            display.look()
            display.look()
        clock.seconds = 60
        display.look()  # 29 s after the line
        clock.seconds = 61
        display.look()
    # 4 rollouts a second: the other 504 take 126 s; one line whatever the width
    assert written.getvalue().splitlines() == [
        "training: 10 rounds, 31 s so far; rollouts r000: 8 of 512 rollouts, 2 min left, 4 rollouts/s",
        "training: 10 rounds, 61 s so far",
    ]


@pytest.fixture
def screen():
    """A display in a terminal of 120 columns, its clock, and what was written to it."""
    clock, written = Clock(), io.StringIO()
    console = Terminal(file=written, force_terminal=True, width=120, legacy_windows=False, _environ={})
    return Display(console, clock=clock), clock, written, console


def test_bars_in_a_terminal(screen):
    display, clock, written, _ = screen
    with display.stage("training") as rounds:
        rounds(2, 10, "rounds")
        with display.stage("updates r002"):
            display.report(0, 200, "rollouts")
            clock.seconds = 10
            display.report(50, 200, "rollouts", loss=0.25)
            display._bars.refresh()
            shown = [line.plain for line in map(_text, written.getvalue().splitlines()[-2:])]
            assert "training" in shown[0]
            assert shown[0].rstrip().endswith("2 of 10 rounds, 10 s so far")
            assert "updates r002" in shown[1]
            assert shown[1].rstrip().endswith("50 of 200 rollouts, 30 s left, 5 rollouts/s, loss 0.25")
            assert [task.completed for task in display._bars.tasks] == [2, 50]
        display._bars.refresh()
        assert [task.description for task in display._bars.tasks] == ["training"]
    assert not display._bars.live.is_started


def _text(line):
    from rich.ansi import AnsiDecoder

    return AnsiDecoder().decode_line(line.rpartition("\r")[2])


def test_a_log_message_stands_above_the_bars(screen):
    display, _, written, console = screen
    logger = logging.Logger("a.logger")
    logger.addHandler(RichHandler(console=console, show_path=False, show_time=False, show_level=False))
    with display.stage("warm start"):
        display._bars.refresh()
        before = len(written.getvalue())
        logger.info("the engine has started")
        after = written.getvalue()[before:]
    # the bar is erased, the message written with the end of its line, and the bar again
    assert (
        after.index("\x1b[2K") < after.index("the engine has started") < after.index("\n") < after.index("warm start")
    )
