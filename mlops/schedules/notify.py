"""Tells a webhook what came of a scheduled run, as a JSON object.

Its address may hold a token. It is read from its environment variable here, and stands in no message: the variable's
name does.
"""

from __future__ import annotations

import logging
from typing import Any

import httpx
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

from mlops.schedules.settings import Event, NotifyConfig
from mlops.schedules.store import Firing
from mlops.summary.summary import Summary
from rlft.errors import ConfigError
from rlft.texts.secrets import hide, resolve

TRIES, SECONDS = 4, 10.0


def events_of(firing: Firing, summary: Summary | None) -> list[Event]:
    """Return what there is to tell of a firing that has ended."""
    if firing.state == "failed":
        return ["failed"]
    if firing.state != "finished" or summary is None:
        return []
    happened: dict[Event, bool] = {
        "improved": summary.status == "improved",
        "promoted": summary.promotion.promoted,
        "waiting_for_approval": summary.promotion.approval == "pending",
    }
    return [event for event, is_so in happened.items() if is_so]


def message(event: Event, firing: Firing, summary: Summary | None) -> dict[str, Any]:
    """Return what is told of an event, as a JSON object."""
    told = summary or Summary(status="failed")
    named = told.promotion if told.promotion.version is not None else None
    return {
        "event": event,
        **firing.model_dump(mode="json", include={"schedule", "due", "run", "reason", "said", "status"}),
        "error": told.error and hide(told.error),
        "difference": told.difference and told.difference.model_dump(),
        "model": named and named.name,
        "version": named and named.version,
        "why": [hide(reason) for reason in told.promotion.reasons],
        "approve": f"rlft approve {named.name} {named.version}" if named and event == "waiting_for_approval" else None,
        "mlflow_run_id": told.mlflow_run_id,
    }


def tell(settings: NotifyConfig, told: dict[str, Any]) -> str:
    """Tell the webhook, and return why it was not told; empty if it was. Whatever is raised on the way is a reason."""
    if settings.webhook is None:
        return ""
    if problem := check_notify(settings):
        return f"the webhook was not told: {problem}"
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs the address of every request
    wait = wait_exponential(0.5, max=5)
    again = Retrying(stop=stop_after_attempt(TRIES), wait=wait, retry=retry_if_exception(_is_passing), reraise=True)
    try:
        again(_post, str(resolve(settings.webhook, "notify.webhook")).strip(), told)
    except Exception as error:  # proxies and certificates of the environment raise what no library promises
        # Most texts of errors may hold the address.
        answered = isinstance(error, httpx.HTTPStatusError) and f"it answered {error.response.status_code}"
        name = settings.webhook.removeprefix("env:")
        return f"the webhook in {name} was not told: {answered or type(error).__name__}"
    return ""


def check_notify(settings: NotifyConfig) -> str:
    """Return in a sentence without the address why the webhook cannot be told here; empty if it can."""
    if settings.webhook is None:
        return ""
    try:
        address = httpx.URL(str(resolve(settings.webhook, "notify.webhook")).strip())
    except ConfigError as missing:
        return missing.what
    except httpx.InvalidURL:
        address = httpx.URL()
    if address.scheme in ("http", "https") and address.host and (address.port or 1) < 1 << 16:
        return ""
    name = settings.webhook.removeprefix("env:")
    return f"the address in {name}, which notify.webhook names, is none such as https://HOST/PATH"


def _is_passing(error: BaseException) -> bool:
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code >= 500 or error.response.status_code == 429
    return isinstance(error, httpx.TransportError)


def _post(address: str, told: dict[str, Any]) -> None:
    with httpx.stream("POST", address, json=told, timeout=SECONDS) as answer:  # what it says may have no end
        answer.raise_for_status()
