"""Curves of a run as SVG, drawn by matplotlib without any state of its own that outlives a call."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from rlft.types import EvaluationReport
from rlft.visible import visible

_SIZE = (7.2, 3.0)  # inches; the page scales it
_LEFT = 0.15  # of the width, for the numbers at the axis; matplotlib would draw everything twice to find room
_STYLE: Any = {
    "svg.fonttype": "none",  # texts stay texts: smaller, and found by a search in the page
    "svg.hashsalt": "rlft",  # so that the same values give the same file
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "text.parse_math": False,  # a name with dollar signs is no formula
}
Points = Sequence[tuple[float, float]]


def draw_curves(curves: Mapping[str, Points], *, ylabel: str, xlabel: str = "round") -> str:
    """Return curves of {name: [(x, y)]} in one pair of axes; a single point is a dot. Names are shown as they are."""
    figure, axes = _axes(xlabel, ylabel)
    with mpl.rc_context(_STYLE):
        for name, points in curves.items():
            xs, ys = zip(*points, strict=True)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
            axes.plot(xs, ys, marker="." if len(points) < 60 else None, linewidth=1.5, label=visible(name))
        if axes.get_ylim()[0] < 0 <= min(y for points in curves.values() for _, y in points):
            axes.set_ylim(bottom=0)  # around a single 0 there would be ticks below it
        if len(curves) > 1:
            axes.legend(frameon=False, fontsize=9)
        return _svg(figure)


def draw_validation(reports: Mapping[int, EvaluationReport], metric: str, best: int | None) -> str:
    """Return the validations, {rounds before: report}, with their 95 % intervals; `best` is marked as chosen."""
    figure, axes = _axes("rounds before the validation", f"{metric} on validation")
    with mpl.rc_context(_STYLE):
        known = [
            (number, reports[number].metrics[metric]) for number in sorted(reports) if metric in reports[number].metrics
        ]
        xs = [number for number, _ in known]
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.fill_between(xs, [each.low for _, each in known], [each.high for _, each in known], alpha=0.2, linewidth=0)
        axes.plot(xs, [each.mean for _, each in known], marker=".", linewidth=1.5)
        for number, each in known:
            if number == best:
                axes.plot([number], [each.mean], marker="o", markersize=9, fillstyle="none")
                axes.annotate("chosen", (number, each.mean), (6, 6), textcoords="offset points")
        return _svg(figure)


def draw_bars(values: Mapping[str, float], *, xlabel: str) -> str:
    """Return horizontal bars with their values, the first one on top."""
    figure, axes = _axes(xlabel, "", height=0.35 * len(values) + 0.7)
    with mpl.rc_context(_STYLE):
        names = [visible(name) for name in values]
        bars = axes.barh(names, list(values.values()))
        axes.bar_label(bars, fmt="%.3g", padding=3)
        axes.margins(x=0.1)  # room for the value of the longest
        axes.invert_yaxis()
        axes.grid(visible=False)
        return _svg(figure)


def _axes(xlabel: str, ylabel: str, height: float = _SIZE[1]) -> tuple[Figure, Axes]:
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_SIZE[0], height))
        axes = figure.add_axes((left := _LEFT if ylabel else 0.25, bottom := 0.55 / height, 0.98 - left, 0.97 - bottom))
        axes.set_xlabel(xlabel)
        axes.set_ylabel(visible(ylabel))
        return figure, axes


def _svg(figure: Figure) -> str:
    """Return the figure as an SVG element, without the head of a file of its own and a date."""
    file = io.StringIO()
    FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = file.getvalue()
    element = text[text.index("<svg") :]
    return re.sub(
        r'(<svg\b[^>]*?) height="[^"]*"',
        r"\1",
        re.sub(r'(<svg\b[^>]*?) width="[^"]*"', r"\1", element, count=1),
        count=1,
    )
