"""Reports vLLM's progress as a `Progress`, through the progress bar that vLLM is given."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from tqdm import tqdm

from rlft.progress import Meter, Progress


def reporting_bar(progress: Progress) -> Callable[..., tqdm]:
    """Return a class for `use_tqdm` of `LLM.generate`, whose bars draw nothing and report how many completions ended.

    vLLM makes two bars: one iterates over the prompts and is not reported, the other counts requests that have ended.
    """

    class Bar(tqdm):
        def __init__(self, *over: Any, **options: Any) -> None:
            # Only the bar over the prompts is given what it iterates over.
            self.meter = None if over else Meter(progress, options.get("total"), "completions")
            super().__init__(*over, **{**options, "file": io.StringIO()})

        def update(self, n: float | None = 1) -> bool | None:
            if self.meter is not None:
                self.meter.add(n or 0)
            return super().update(n)

    return Bar
