"""The names of the controls, which are what training is compared with, and how older configs have said which run."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Literal, get_args

logger = logging.getLogger(__name__)

ControlName = Literal["sft", "rejection_sampling", "few_shot"]


def without_sft_control(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config without `evaluation.sft_control`, which older ones have; `false` becomes a list without `sft`."""
    evaluation, rest = content.get("evaluation"), dict(content)
    if not isinstance(evaluation, Mapping) or "sft_control" not in evaluation:
        return rest
    logger.warning("evaluation.sft_control is now `controls`, a list; write `controls: []` for a run without any")
    rest["evaluation"] = {name: value for name, value in evaluation.items() if name != "sft_control"}
    if evaluation["sft_control"] is False:
        wanted = get_args(ControlName) if rest.get("controls") is None else rest["controls"]
        rest["controls"] = [name for name in wanted if name != "sft"]
    return rest
