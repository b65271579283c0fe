"""The controls, which are what training is compared with, and how older configs have said which of them run."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field

from rlft.config.names import FolderName, PathText
from rlft.config.section import Section

logger = logging.getLogger(__name__)

ControlName = Literal["sft", "rejection_sampling", "few_shot"]


class ModelControl(Section):
    """Another model, with examples in its prompt."""

    model: PathText = Field(description="Name on the Hugging Face Hub, or folder, of a causal language model.")
    revision: FolderName | None = Field(
        default=None, description="Branch, tag or commit of the Hub model. null means its main branch."
    )


def _is_a_control(given: Any) -> Any:
    """Return what is a name, or a mapping with `model`. Raises ValueError, which says what there is, for all else."""
    names = get_args(ControlName)
    if isinstance(given, ModelControl) or given in names:
        return given
    if not isinstance(given, Mapping) or "model" not in given or set(given) - set(ModelControl.model_fields):
        raise ValueError(f"{given!r:.80} is no control: use {', '.join(names)}, or {{model: NAME}} for another model")
    if str(given["model"]).startswith(("openai:", "http://", "https://")):
        raise ValueError("a model behind an address cannot be a control: name a model of the hub, or a folder")
    return ModelControl.model_validate(given)


AnyControl = Annotated[ControlName | ModelControl, BeforeValidator(_is_a_control)]


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
