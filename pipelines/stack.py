"""Which ZenML stack a run uses: its own in `.rlft/`, or a named one of the user's with its MLflow tracker."""

from __future__ import annotations

import os

from pipelines.home import PROJECT, Home, use_own_setup
from pipelines.stores import make_stores
from rlft.config.addresses import refuse_metadata
from rlft.errors import StackError
from rlft.secrets import find_secrets

CREDENTIALS = {
    "tracking_username": "MLFLOW_TRACKING_USERNAME",
    "tracking_password": "MLFLOW_TRACKING_PASSWORD",
    "tracking_token": "MLFLOW_TRACKING_TOKEN",
}


def connect(home: Home, stack: str | None) -> str:
    """Prepare this process for a run and return the MLflow tracking uri.

    Without a stack, ZenML and MLflow live in `home`. With one, the user's ZenML is used and `stack` is active for this
    process alone. Raises StackError when the stack is unknown, has no MLflow tracker, or cannot run dynamic pipelines.
    """
    if stack is None:
        use_own_setup(home)
    else:
        home.make()  # for summaries and what tracking missed
    from zenml.utils import source_utils

    source_utils.set_custom_source_root(str(PROJECT))
    if stack is None:
        make_stores(home)
    uri = home.tracking_uri if stack is None else _use_stack(stack)
    os.environ["MLFLOW_TRACKING_URI"] = uri  # without it, fluent calls of libraries write ./mlflow.db
    return uri


def _use_stack(name: str) -> str:
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
    tracker = client.active_stack.experiment_tracker
    if tracker is None or tracker.flavor != "mlflow":
        raise StackError(
            f"the stack {name!r} has no MLflow experiment tracker",
            where="--stack",
            fix="zenml experiment-tracker register mlflow --flavor=mlflow --tracking_uri=... && "
            f"zenml stack update {name} -e mlflow",
        )
    if not client.active_stack.orchestrator.supports_dynamic_pipelines:
        raise StackError(
            f"the orchestrator of {name!r} does not run dynamic pipelines",
            where="--stack",
            fix="use a local, kubernetes, vertex, sagemaker or azureml orchestrator",
        )
    return _tracking_uri(tracker)


def _tracking_uri(tracker: object) -> str:
    """Address of the tracker; its credentials go into the environment, where MLflow reads them."""
    uri: str = tracker.get_tracking_uri()  # type: ignore[reportAttributeAccessIssue]
    if find_secrets(uri):
        raise StackError(
            "the tracker's address holds a secret, which would end up in the run's parameters",
            where="--stack",
            fix="zenml experiment-tracker update NAME --tracking_username=... --tracking_password=...",
        )
    try:
        refuse_metadata(uri)
    except ValueError as wrong:
        raise StackError(str(wrong), where="--stack", fix="name the MLflow server's own address") from None
    config = tracker.config  # type: ignore[reportAttributeAccessIssue]
    for setting, variable in CREDENTIALS.items():
        if value := getattr(config, setting, None):
            os.environ[variable] = str(value)
    return uri
