"""Prints and logs text from anywhere in rlft's own style, so that nothing in it can steer the terminal.

Every command prints through a `Terminal`, styles text with `styled`, and logs through `visible_logs`; nothing else in
the pipelines makes a rich `Console` or `Text` or writes to stdout (ruff's `banned-api` and `T20` hold this).
"""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from rlft.texts.characters import visible, visible_json
from rlft.texts.secrets import hide


class Terminal(Console):
    """A console on which text has no markup (`[red]` is five characters) and cannot steer the terminal."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, emoji=False, **settings)

    def render_str(self, text: str, **style: Any) -> Text:
        """Make strings in cells, titles and panels visible, before their width is measured."""
        return super().render_str(visible(text), **style)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Make whatever is rendered visible, such as a progress bar's own `Text`; rich's control codes pass."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))

    def print_behind(self, margin: str, text: str, style: str | Style = "") -> None:
        """Print text behind a margin, which is blank from its second line on, however long its lines are.

        So nothing that a model wrote stands where a heading does.
        """
        content = styled(text, style)
        for place, line in enumerate(content.wrap(self, max(1, self.width - len(margin)))):
            self.print(Text(" " * len(margin) if place else margin, style=style).append_text(line))

    def on_broken_pipe(self) -> None:
        """Print nothing more when nobody reads this any more, as after `| head -1`; the process goes on.

        Rich would end the process, a training run too, and take stdout away although it was stderr that nobody reads.
        """
        self.quiet = True
        with suppress(OSError, ValueError):  # a file object without a descriptor
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.file.fileno())  # for the libraries that write there, and for Python's end
            os.close(nowhere)

    def write_json(self, value: Any) -> None:
        """Write a value as JSON that a program can read, with lines as wide as they are."""
        try:
            self.file.write(visible_json(value) + "\n")
            self.file.flush()
        except BrokenPipeError:
            self.on_broken_pipe()


def styled(text: str, style: str | Style = "") -> Text:
    """Return text from anywhere as rich's `Text`, made visible and in a style of ours."""
    return Text(visible(text), style=style)


def plain_table(*headings: str) -> Table:
    """Return a table without lines, whose cells fold where they are too long."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


console = Terminal()
errors = Terminal(stderr=True)


class _VisibleRecord(logging.LogRecord):
    """A record whose message and trace cannot steer a terminal and hold no value of a variable, in any handler."""

    hides = True  # tells `rlft.texts.secrets.hide_in_logs` that it need not wrap this class

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        if self.exc_info and self.exc_info[0] is not None:
            self.exc_text = visible(hide("".join(traceback.format_exception(*self.exc_info)).rstrip("\n")))

    def getMessage(self) -> str:
        return visible(hide(super().getMessage()))


@contextmanager
def visible_logs() -> Iterator[None]:
    """Make every log record of this process safe to show, an environment's and a library's too.

    Warnings are logged.
    """
    make_record = logging.getLogRecordFactory()
    logging.setLogRecordFactory(_VisibleRecord)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        logging.setLogRecordFactory(make_record)
