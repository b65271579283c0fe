"""Tells what came of a scheduled run: a JSON object for a webhook and for a command.

A webhook's address may hold a token. It is read from its environment variable here, and stands in no message: the
variable's name does.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from mlops.schedules.firings import Firing
from mlops.summary.summary import Summary
from rlft.config.addresses import WebhookError, check_webhook
from rlft.errors import ConfigError, RlftError
from rlft.schedule.settings import Event, NotifyConfig
from rlft.secrets import hide, resolve

logger = logging.getLogger(__name__)
TRIES, COMMAND_SECONDS, POST_SECONDS = 4, 60.0, 10.0


def message(event: Event, firing: Firing, summary: Summary | None, log: Path | None = None) -> dict[str, Any]:
    """Return what is told of an event, as a JSON object; `log` is the file in which its processes have written."""
    promotion = summary.promotion if summary is not None else None
    named = promotion is not None and promotion.version is not None
    return {
        "event": event,
        "schedule": firing.schedule,
        "due": firing.due.isoformat(timespec="seconds"),
        "run": firing.run,
        "reason": firing.reason,
        "said": hide(firing.said),
        "status": summary.status if summary is not None else None,
        "error": hide(summary.error) if summary is not None and summary.error else None,
        "difference": summary.difference.model_dump() if summary is not None and summary.difference else None,
        "model": promotion.name if named and promotion is not None else None,
        "version": promotion.version if named and promotion is not None else None,
        "why": [hide(reason) for reason in promotion.reasons] if promotion is not None else [],
        "approve": _way_to_approve(event, summary),
        "mlflow_run_id": summary.mlflow_run_id if summary is not None else None,
        "log": str(log) if log is not None else None,
    }


def _way_to_approve(event: Event, summary: Summary | None) -> str | None:
    if event != "waiting_for_approval" or summary is None:
        return None
    return f"rlft approve {summary.promotion.name} {summary.promotion.version}"


def tell(settings: NotifyConfig, told: dict[str, Any], folder: Path) -> list[str]:
    """Tell the webhook and the command, and return a sentence for each that could not be told.

    The command runs in `folder`. What fails is tried again for some seconds, and never raises.
    """
    problems: list[str] = []
    if settings.webhook is not None:
        problems += _post(settings.webhook, told)
    if settings.command:
        problems += _call(settings.command, told, folder)
    for problem in problems:
        logger.warning("%s", problem)
    return problems


def _post(variable: str, told: dict[str, Any]) -> list[str]:
    """Tell a webhook, and return why it was not told; whatever is raised on the way is such a reason."""
    name = variable.removeprefix("env:")
    try:
        address = str(resolve(variable, "notify.webhook")).strip()
    except ConfigError as error:
        return [f"the webhook was not told: {error.what}"]
    try:
        check_webhook(address)
        _post_until_told(address, told)
    except Exception as error:  # proxies and certificates of the environment raise what no library promises
        return [f"the webhook in {name} was not told: {_why(error)}"]
    return []


def _why(error: Exception) -> str:
    """Return why a webhook was not told. Most texts of errors are left out, as they may hold the address."""
    import httpx

    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, WebhookError):
        return str(error)
    if isinstance(error, httpx.HTTPStatusError):
        return f"it answered {error.response.status_code}"
    if isinstance(error, TimeoutError):
        return f"it took more than {POST_SECONDS:.0f} s to answer"
    if isinstance(error, ImportError):  # of a proxy that httpx cannot use by itself
        return f"{type(error).__name__}: {hide(str(error))}"
    if isinstance(error, FileNotFoundError):  # its text has no path
        return "a file that the environment names is not there; SSL_CERT_FILE and SSL_CERT_DIR name some"
    return type(error).__name__


def _post_until_told(address: str, told: dict[str, Any]) -> None:
    import httpx
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs the address of every request

    def is_passing(error: BaseException) -> bool:
        if isinstance(error, httpx.HTTPStatusError):
            return error.response.status_code >= 500 or error.response.status_code == 429
        return isinstance(error, (httpx.TransportError, TimeoutError))

    again = Retrying(
        stop=stop_after_attempt(TRIES),
        wait=wait_exponential(0.5, max=5),
        retry=retry_if_exception(is_passing),
        reraise=True,
    )
    again(_post_once, address, told)


def _post_once(address: str, told: dict[str, Any]) -> None:
    """Post it, and raise what httpx does, or TimeoutError: httpx itself would bound each byte of an answer alone."""

    import httpx

    async def post() -> None:
        # Only how it answers counts: what it says may have no end.
        async with (
            asyncio.timeout(POST_SECONDS),
            httpx.AsyncClient(timeout=POST_SECONDS) as client,
            client.stream("POST", address, json=told) as answer,
        ):
            answer.raise_for_status()

    asyncio.run(post())


def _call(command: list[str], told: dict[str, Any], folder: Path) -> list[str]:
    """Run a command, and return why it does not count as told. Nothing of what it prints is kept.

    It leads a process group of its own, which is ended as a whole. What it leaves running when it has ended goes on.
    """
    environment = {**os.environ, "RLFT_EVENT": told["event"], "RLFT_SCHEDULE": told["schedule"]}
    try:
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=environment,
            start_new_session=True,
        ) as process:
            try:
                process.communicate(json.dumps(told).encode(), timeout=COMMAND_SECONDS)
            except subprocess.TimeoutExpired:
                return [f"the command {command[0]} of notify took more than {COMMAND_SECONDS:.0f} s, and was ended"]
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
    except (OSError, ValueError) as cause:
        return [f"the command {command[0]} of notify cannot be run: {cause}"]
    if process.returncode:
        return [f"the command {command[0]} of notify ended with exit code {process.returncode}"]
    return []


def check_notify(settings: NotifyConfig) -> list[str]:
    """Return a sentence for each variable that a schedule needs to tell somebody, and that is not set or unusable here.

    No sentence holds the value of a variable.
    """
    if settings.webhook is None:
        return []
    try:
        check_webhook(str(resolve(settings.webhook, "notify.webhook")).strip())
    except RlftError as missing:
        return [missing.what]
    except WebhookError as wrong:
        return [f"the address in {settings.webhook.removeprefix('env:')}, which notify.webhook names: {wrong}"]
    return []
