"""Where MLflow is, and its credentials.

Steps and runs are given an address or the word `home`, which stays the same in cache keys when the home is moved.
"""

from __future__ import annotations

import os
from typing import Any

HOME = "home"
VARIABLE = "RLFT_TRACKING_URI"
CREDENTIALS = {
    "tracking_username": "MLFLOW_TRACKING_USERNAME",
    "tracking_password": "MLFLOW_TRACKING_PASSWORD",
    "tracking_token": "MLFLOW_TRACKING_TOKEN",
}
# ZenML takes a tracker at an http address only with a way to log in. A server that asks for none gets this one in
# ZenML's registry; it is never sent.
NO_AUTHENTICATION = "no-authentication"


def tracking_address(uri: str) -> str:
    """Return the address `uri`; for `home` that of the folder in which this process keeps its runs.

    For another address than `home` the credentials of the active stack's tracker are put into the environment: a pod on
    which the stack runs a pipeline or a step does not have those of the machine from which it was started.
    """
    if uri == HOME:
        return os.environ[VARIABLE]
    from zenml.client import Client

    tracker = Client().active_stack.experiment_tracker
    if tracker is not None and tracker.flavor == "mlflow":
        use_credentials(tracker)
    return uri


def use_credentials(tracker: Any) -> None:
    """Put the credentials of a stack's MLflow tracker into the environment, where MLflow reads them."""
    for setting, variable in CREDENTIALS.items():
        value = getattr(tracker.config, setting, None)
        if value and value != NO_AUTHENTICATION:
            os.environ[variable] = str(value)
