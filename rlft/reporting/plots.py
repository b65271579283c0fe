"""Curves of a run as SVG, written by hand: matplotlib takes half a second to load. Texts stay texts, for a search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil, floor, isfinite, log10

from markupsafe import escape

from rlft.texts.characters import visible
from rlft.types import EvaluationReport

Points = Sequence[tuple[float, float]]
_WIDTH, _HEIGHT = 720, 300  # pixels; the page scales it
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 705, 30, 250  # the ends of the axes
_TICKS = 6  # the most on an axis
_COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b")
_DOTS = 60  # a curve of fewer points has dots


def draw_curves(curves: Mapping[str, Points], *, ylabel: str, xlabel: str = "round") -> str:
    """Return curves of {name: [(x, y)]} in one pair of axes; a single point is a dot. Names are shown as they are."""
    axes = _Axes([point for points in curves.values() for point in points])
    body, beside = [*axes.frame(xlabel, ylabel)], _LEFT
    for number, (name, points) in enumerate(curves.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        body += axes.curve(points, colour)
        if len(curves) > 1:
            body += [f'<path d="M{beside} 14h18" stroke="{colour}" stroke-width="2"/>', _text(beside + 24, 18, name)]
            beside += 40 + 7 * len(visible(name))
    return _svg(body)


def draw_validation(reports: Mapping[int, EvaluationReport], metric: str, best: int | None) -> str:
    """Return the validations, {rounds before: report}, with their 95 % intervals; `best` is marked as chosen."""
    known = {number: each.metrics[metric] for number, each in sorted(reports.items()) if metric in each.metrics}
    low, high = ([(number, getattr(each, end)) for number, each in known.items()] for end in ("low", "high"))
    axes = _Axes([*low, *high])
    band = " ".join(axes.place(point) for point in (*low, *reversed(high)))
    body = [*axes.frame("rounds before the validation", f"{metric} on validation")]
    body.append(f'<polygon points="{band}" fill="{_COLOURS[0]}" fill-opacity="0.2"/>')
    body += axes.curve([(number, each.mean) for number, each in known.items()], _COLOURS[0])
    if best is not None and best in known:
        x, y = axes.place((best, known[best].mean)).split(",")
        body += [f'<circle cx="{x}" cy="{y}" r="7" fill="none" stroke="{_COLOURS[1]}" stroke-width="2"/>']
        body += [_text(float(x) - 9, float(y) - 9, "chosen", "end")]
    return _svg(body)


class _Axes:
    """Axes with room for some points: whole numbers below, and a little more than the values at the left."""

    def __init__(self, points: Points) -> None:
        xs, ys = [x for x, _ in points] or [0], [y for _, y in points if isfinite(y)] or [0.0]
        self._x = (min(xs), max(xs)) if min(xs) < max(xs) else (min(xs) - 0.5, max(xs) + 0.5)
        room = 0.05 * (max(ys) - min(ys)) or 0.05 * abs(ys[0]) or 0.05
        # Around a single 0 there would be ticks below it.
        self._y = (min(ys) - room if min(ys) < 0 or min(ys) > room else 0.0, max(ys) + room)

    def place(self, point: tuple[float, float]) -> str:
        """Return where a point is, in pixels from the left and from the top."""
        x, y = ((at - low) / (high - low) for at, (low, high) in zip(point, (self._x, self._y), strict=True))
        return f"{_LEFT + x * (_RIGHT - _LEFT):.1f},{_BOTTOM - y * (_BOTTOM - _TOP):.1f}"

    def frame(self, xlabel: str, ylabel: str) -> Iterator[str]:
        """Yield both axes with their ticks and names."""
        for value in _ticks(*self._x, whole=True):
            x = self.place((value, self._y[0])).split(",")[0]
            yield _line(f"M{x} {_BOTTOM}V{_TOP}") + _text(float(x), _BOTTOM + 18, f"{value:g}", "middle")
        for value in _ticks(*self._y):
            y = self.place((self._x[0], value)).split(",")[1]
            yield _line(f"M{_LEFT} {y}H{_RIGHT}") + _text(_LEFT - 8, float(y) + 4, f"{value:g}", "end")
        yield f'<path d="M{_LEFT} {_TOP}V{_BOTTOM}H{_RIGHT}" fill="none" stroke="currentColor"/>'
        yield _text((_LEFT + _RIGHT) / 2, _BOTTOM + 40, xlabel, "middle")
        yield f'<g transform="translate(16 {(_TOP + _BOTTOM) / 2}) rotate(-90)">{_text(0, 0, ylabel, "middle")}</g>'

    def curve(self, points: Points, colour: str) -> Iterator[str]:
        """Yield a line through the points that are numbers, with a dot for each if they are few."""
        places = [self.place(point) for point in points if isfinite(point[1])]
        yield f'<polyline points="{" ".join(places)}" fill="none" stroke="{colour}" stroke-width="2"/>'
        for x, y in (place.split(",") for place in places if len(places) < _DOTS):
            yield f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>'


def _ticks(low: float, high: float, *, whole: bool = False) -> list[float]:
    """Return round numbers between two numbers, at most so many as an axis has room for."""
    least = (high - low) / _TICKS
    step = 10.0 ** floor(log10(least))
    step *= next(factor for factor in (1, 2, 5, 10) if factor * step >= least)
    step = max(step, 1.0) if whole else step
    return [float(f"{number * step:.12g}") for number in range(ceil(low / step), floor(high / step) + 1)]


def _line(path: str) -> str:
    return f'<path d="{path}" stroke="currentColor" stroke-opacity="0.15"/>'


def _text(x: float, y: float, said: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(visible(said))}</text>'


def _svg(body: Iterable[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
    return f'{head} font-family="sans-serif" font-size="13" fill="currentColor">{"".join(body)}</svg>'
