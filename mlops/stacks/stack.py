"""Connects a process to the ZenML stack that a run uses: rlft's own in `.rlft/`, or a named one of the user's."""

from __future__ import annotations

import os
import re
from typing import Any

from mlops.home.databases import check_home, make_stores
from mlops.home.folder import PROJECT, Home
from mlops.home.variables import use_own_setup
from mlops.tracking.address import NO_AUTHENTICATION, use_credentials
from rlft.errors import StackError
from rlft.texts.secrets import find_secrets, hide, redact


def connect(home: Home, stack: str | None) -> str:
    """Prepare this process for a run and return the address of its MLflow. Call before ZenML is imported.

    Without a stack, ZenML and MLflow live in `home`. With one, the user's ZenML is used and `stack` is active for this
    process alone. Raises StorageError when a database is damaged or gone, and StackError when the stack is unknown,
    has no MLflow tracker, or cannot run dynamic pipelines.
    """
    if stack is None:
        check_home(home)
        use_own_setup(home)
    else:
        home.make()  # for summaries and what tracking missed
    from zenml.utils import source_utils

    # ZenML finds steps below this folder, whatever the working directory is.
    source_utils.set_custom_source_root(str(PROJECT))
    if stack is None:
        make_stores(home)
        uri = home.tracking_uri
    else:
        uri = _use_stack(stack)
    os.environ["MLFLOW_TRACKING_URI"] = uri  # without it, fluent calls of libraries write ./mlflow.db
    return uri


def _use_stack(name: str) -> str:
    """Make a stack of the user's active in this process; returns the address of its MLflow. Raises StackError."""
    from zenml.client import Client

    client = Client()
    try:
        found = client.get_stack(name, allow_name_prefix_match=False)
    except (KeyError, ValueError) as cause:
        names = sorted(stack.name for stack in client.list_stacks(size=50))
        raise StackError(
            f"there is no stack {name!r}; there are: {', '.join(names)}",
            where="--stack",
            fix="`zenml stack list` shows them; leave --stack out to run in .rlft/",
        ) from cause
    os.environ["ZENML_ACTIVE_STACK_ID"] = str(found.id)
    try:
        active = client.active_stack
    except (ValueError, KeyError, ImportError) as cause:  # such as stored settings of a component
        raise StackError(
            f"a component of the stack {name!r} cannot be used:\n{describe_refusal(cause)}",
            where="--stack",
            fix="correct the stack's file and apply it with `rlft stack FILE`, or change the component with `zenml`; "
            f"an MLflow server without authentication has tracking_token: {NO_AUTHENTICATION}",
        ) from cause
    tracker = active.experiment_tracker
    if tracker is None or tracker.flavor != "mlflow":
        raise StackError(
            f"the stack {name!r} has no MLflow experiment tracker",
            where="--stack",
            fix="zenml experiment-tracker register mlflow --flavor=mlflow --tracking_uri=... && "
            f"zenml stack update {name} -e mlflow",
        )
    if not active.orchestrator.supports_dynamic_pipelines:
        raise StackError(
            f"the orchestrator of {name!r} does not run dynamic pipelines",
            where="--stack",
            fix="use a local, kubernetes, vertex, sagemaker or azureml orchestrator",
        )
    return _tracking_uri(tracker)


def describe_refusal(cause: Exception, where: str = "") -> str:
    """Return what ZenML or pydantic refuses of a component's settings: a line for each, without its value.

    `where` is what stands before the name of a setting, such as `orchestrator.config`.
    """
    from pydantic import ValidationError

    if isinstance(cause, ValidationError):
        lines = []
        for error in cause.errors(include_url=False, include_input=False):
            key = ".".join(part for part in (where, *map(str, error["loc"])) if part)
            lines.append(f"{key}: {error['msg'].removeprefix('Value error, ')}" if key else error["msg"])
    else:
        said = str(cause.args[0] if cause.args else cause)
        # ZenML quotes all settings of the component there, secrets too.
        said = re.sub(r" of stack component `.*?`(?=[:.])", "", said, flags=re.DOTALL)
        lines = [f"{where}: {said}" if where else said]
    return "\n".join(f"  {hide(redact(line))}" for line in lines)


def _tracking_uri(tracker: Any) -> str:
    """Return the tracker's address, and put its credentials into the environment, where MLflow reads them."""
    uri: str = tracker.get_tracking_uri()
    check_tracking_address(uri, where="--stack")
    use_credentials(tracker)
    return uri


def check_tracking_address(uri: str, *, where: str) -> None:
    """Raise StackError for an address that holds a secret."""
    if find_secrets(uri):
        raise StackError(
            "the tracker's address holds a secret, which would end up in the run's parameters",
            where=where,
            fix="name user and password apart from the address, with tracking_username and tracking_password: in the "
            "stack's file, or by zenml experiment-tracker update NAME --tracking_username=... --tracking_password=...",
        )
