"""The controls, which are what training is compared with, and how older configs have said which of them run."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BeforeValidator, Field, field_validator, model_validator

from rlft.config.addresses import check_address
from rlft.config.bounds import LONGEST_SECONDS
from rlft.config.names import FolderName, PathText
from rlft.config.section import Section, changed
from rlft.secrets import named_variables

logger = logging.getLogger(__name__)

ControlName = Literal["sft", "rejection_sampling", "few_shot"]


_ASKING = "/chat/completions"
_AT_ADDRESS = '{model: NAME, endpoint: "http://127.0.0.1:8000/v1", api_key: env:NAME}'


class ModelControl(Section):
    """Another model, with examples in its prompt: `{model: NAME}` in the list `controls`."""

    model: PathText = Field(
        description="Name on the Hugging Face Hub, or folder, of a causal language model; with `endpoint` its name "
        "there."
    )
    revision: FolderName | None = Field(
        default=None, description="Branch, tag or commit of the Hub model. null means its main branch."
    )
    endpoint: str | None = Field(
        default=None,
        description="Address of an OpenAI-compatible server that has the model, such as http://127.0.0.1:8000/v1; "
        "`/chat/completions` is asked below it. null means that the model is loaded here.",
    )
    api_key: str | None = Field(
        default=None,
        description="Key of the endpoint, as env:NAME for the environment variable that holds it. null sends none.",
    )
    timeout_seconds: float = Field(
        default=120.0, gt=0, le=LONGEST_SECONDS, description="Seconds that one request to the endpoint may take."
    )
    attempts: int = Field(
        default=5,
        ge=1,
        le=1000,
        description="Times that the endpoint is asked the same before the rollout is an error.",
    )
    concurrency: int = Field(
        default=8, ge=1, le=10_000, description="The endpoint gets at most this many requests at the same time."
    )

    @field_validator("endpoint")
    @classmethod
    def _is_an_address(cls, endpoint: str | None) -> str | None:
        if endpoint is None:
            return None
        address = check_address(endpoint, path="/v1")
        if address.endswith(_ASKING):
            raise ValueError(f"{address!r} ends with {_ASKING}, which is added where it is asked; leave that out")
        return address

    @field_validator("api_key")
    @classmethod
    def _is_a_variable(cls, key: str | None) -> str | None:
        if key is not None and [f"env:{name}" for _, name in named_variables(key, "")] != [key]:
            raise ValueError("write env:NAME, where NAME is the environment variable that holds the key")
        return key

    @model_validator(mode="after")
    def _fits_where_the_model_is(self) -> Self:
        if self.endpoint is not None and self.revision is not None:
            raise ValueError("an endpoint decides itself which weights a name has there; remove `revision`")
        asked = changed(self, "api_key", "timeout_seconds", "attempts", "concurrency")
        if self.endpoint is None and asked:
            raise ValueError(f"{', '.join(asked)}: only an `endpoint` is asked over HTTP; name one, or remove this")
        return self


def _is_a_control(given: Any) -> Any:
    """Return what is a name, or a mapping with `model`. Raises ValueError, which says what there is, for all else."""
    names = get_args(ControlName)
    if isinstance(given, ModelControl) or given in names:
        return given
    if not isinstance(given, Mapping) or "model" not in given or set(given) - set(ModelControl.model_fields):
        shown = sorted(map(str, given)) if isinstance(given, Mapping) else given  # the values may hold a key
        raise ValueError(
            f"{shown!r:.80} is no control: use {', '.join(names)}, or {{model: NAME}} for another model, with "
            f"{', '.join(name for name in ModelControl.model_fields if name != 'model')} if need be"
        )
    if str(given["model"]).startswith(("openai:", "http://", "https://")):
        raise ValueError(f"a model behind an address is written {_AT_ADDRESS}; without a key, leave api_key out")
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
