"""What vLLM tells its own progress bar of requests that have ended, as a `Progress`."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from tqdm import tqdm

from rlft.progress import Meter, Progress


def reporting_bar(progress: Progress) -> Callable[..., tqdm]:
    """For `use_tqdm` of `LLM.generate`: makes bars that draw nothing and report how many completions there are.

    vLLM goes over the prompts with one bar, which is passed over, and counts what has ended with another.
    """

    class Bar(tqdm):
        def __init__(self, *over: Any, **options: Any) -> None:
            self.meter = None if over else Meter(progress, options.get("total"), "completions")
            super().__init__(*over, **{**options, "file": io.StringIO()})

        def update(self, n: float | None = 1) -> bool | None:
            if self.meter is not None:
                self.meter.add(n or 0)
            return super().update(n)

    return Bar
