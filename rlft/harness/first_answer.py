"""The first answer of a model behind an address, before any training: a wrong address, key or name stops the run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from rlft.chat.served import as_sent
from rlft.config import HarnessConfig, ModelControl
from rlft.contract.base import BaseEnv, prompt_messages
from rlft.engines.base import Sampling
from rlft.engines.chat_endpoint import AskedModel, ChatEndpoint
from rlft.engines.server_requests import ServerGoneError, ServerRefusedError
from rlft.errors import EngineError
from rlft.harness.asked import read_answer
from rlft.harness.opening import open_playground
from rlft.types import Task

_ENOUGH = 16  # tokens of the answer that shows that the endpoint works


def get_to_know(
    control: ModelControl, task: Task, environment: BaseEnv, harness: HarnessConfig, sampling: Sampling
) -> AskedModel:
    """Ask a model behind an address for the beginning of an answer to one task, and return what is known of it then.

    Raises EngineError if it does not answer: a wrong address, key or name, tools or settings of sampling that it does
    not take. Raises ConfigError for a key that is not set.
    """
    limits = {name: getattr(control, name) for name in ("api_key", "timeout_seconds", "attempts", "concurrency")}
    model = AskedModel(endpoint=str(control.endpoint), model=control.model, **limits)
    tools = [spec.to_json() for spec in open_playground(environment, harness).tools.values()]
    short = replace(sampling, max_completion_length=min(sampling.max_completion_length, _ENOUGH))
    with _asking(model) as endpoint:
        answer = endpoint.ask(as_sent(prompt_messages(task, environment)), tools, short, 0)
        read_answer(answer, endpoint)
    return replace(model, calls_itself=answer.calls_itself)


@contextmanager
def _asking(model: AskedModel) -> Iterator[ChatEndpoint]:
    """Open an endpoint, and close it. What it does not answer is an EngineError that says what to do."""
    endpoint = ChatEndpoint(model)
    try:
        yield endpoint
    except (ServerGoneError, ServerRefusedError) as cause:
        raise EngineError(
            f"{model.model} cannot be asked: {cause}", where="controls: endpoint", fix=_way_out(cause.status, model)
        ) from cause
    finally:
        endpoint.close()


def _way_out(status: int, model: AskedModel) -> str:
    if status in (401, 403):
        return f"see that {model.api_key or 'api_key names a variable that'} holds a key for this endpoint"
    if status == 404:
        return "mend `model` (as the endpoint names it) or `endpoint` (often with /v1 at its end), or leave it out"
    if status == 400:
        return (
            "change what it does not take (evaluation.temperature, top_p, top_k, min_p; tools), or leave the model out"
        )
    return "start the endpoint, mend its address, or leave the model out of `controls`"
