"""What a person sees in the terminal: our own style around text from anywhere, which is shown and never obeyed.

Every command prints through a `Terminal`, styles text with `styled`, and logs through `visible_logs`; nothing else in
the pipelines makes a rich `Console` or `Text` or writes to stdout (ruff's `banned-api` and `T20` hold this).
"""

from __future__ import annotations

import logging
import os
import threading
import traceback
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from rlft.secrets import hide
from rlft.visible import visible, visible_json

log = logging.getLogger(__name__)


class Terminal(Console):
    """A console on which text has no markup (`[red]` is five characters) and cannot steer the terminal."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, emoji=False, **settings)

    def render_str(self, text: str, **style: Any) -> Text:
        """Strings, wherever they stand: in cells, titles, panels. Written out before their width is measured."""
        return super().render_str(visible(text), **style)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The last look at what anything renders to, such as a progress bar's own `Text`."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))

    def print_behind(self, margin: str, text: str, style: str | Style = "") -> None:
        """Text from anywhere behind a margin, which is blank from its second line on, however long its lines are.

        So nothing that a model wrote stands where a heading does.
        """
        content = styled(text, style)
        for place, line in enumerate(content.wrap(self, max(1, self.width - len(margin)))):
            self.print(Text(" " * len(margin) if place else margin, style=style).append_text(line))

    def on_broken_pipe(self) -> None:
        """Nobody reads this any more, as after `| head -1`: what goes on goes on, and says nothing here.

        Rich would end the process, a training run too, and take stdout away although it was stderr that nobody reads.
        """
        self.quiet = True
        with suppress(OSError, ValueError):  # a file without a number
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.file.fileno())  # for the libraries that write there, and for Python's end
            os.close(nowhere)

    def write_json(self, value: Any) -> None:
        """A value as JSON that a program can read, as wide as it is."""
        try:
            self.file.write(visible_json(value) + "\n")
            self.file.flush()
        except BrokenPipeError:
            self.on_broken_pipe()


def styled(text: str, style: str | Style = "") -> Text:
    """Text from anywhere in a style of ours."""
    return Text(visible(text), style=style)


console = Terminal()
errors = Terminal(stderr=True)


class _VisibleRecord(logging.LogRecord):
    """A record whose message and trace cannot steer a terminal and hold no value of a variable, in any handler."""

    hides = True  # `rlft.secrets.hide_in_logs` has nothing to add

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        if self.exc_info and self.exc_info[0] is not None:
            self.exc_text = visible(hide("".join(traceback.format_exception(*self.exc_info)).rstrip("\n")))

    def getMessage(self) -> str:
        return visible(hide(super().getMessage()))


@contextmanager
def visible_logs() -> Iterator[None]:
    """Every log record and warning of this process as a person may see it: an environment's and a library's too.

    So are the exceptions that end a thread, which Python prints as they are.
    """
    make_record, write_warning, end_thread = logging.getLogRecordFactory(), warnings.formatwarning, threading.excepthook

    def write_visible(*arguments: Any, **named: Any) -> str:
        return visible(hide(write_warning(*arguments, **named)))

    logging.setLogRecordFactory(_VisibleRecord)
    warnings.formatwarning, threading.excepthook = write_visible, _log_thread
    try:
        yield
    finally:
        threading.excepthook = end_thread
        logging.setLogRecordFactory(make_record)
        warnings.formatwarning = write_warning


def _log_thread(failed: threading.ExceptHookArgs) -> None:
    """A thread that ended with an exception, in the log; SystemExit ends one silently, as it does in Python."""
    if failed.exc_type is not SystemExit and failed.exc_value is not None:
        name = failed.thread.name if failed.thread else "?"
        log.error("thread %s failed", name, exc_info=failed.exc_value)
