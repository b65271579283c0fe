"""Looks up the models that a person names for an evaluation, before it begins: then a mistyped one leaves no run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from mlflow import MlflowClient
from mlflow.entities.model_registry import RegisteredModel
from mlflow.exceptions import MlflowException

from mlops.home.folder import Home
from mlops.ids import PIPELINE
from mlops.registry.named import find_version
from mlops.registry.names import ABSENT, CHAMPION
from mlops.runs.finding import find_run, name_of
from mlops.stored.policies import stored_policy
from mlops.tracking.answers import answering
from rlft.config import PolicyConfig
from rlft.errors import ConfigError, EngineError, RlftError
from rlft.files import expanded
from rlft.readiness.policy import check_origin
from rlft.suites.folders import check_model_folder
from rlft.suites.models import ModelName

# What an error says that knows nothing of the command line: settings that nobody typed, and the argument of others.
_UNTYPED = ("", "RUN", "policy.model", "policy.revision")


def check_models(home: Home, models: Sequence[ModelName], tracking_uri: str) -> None:
    """Raise RlftError, which names the model, for one that is not there, as far as can be known before it is loaded."""
    for model in models:
        with naming_model(model):
            if model.kind == "run":
                assert model.policy is not None
                stored_policy(home, model.name, model.policy, model.round)
            elif model.kind == "registry":
                with answering(tracking_uri):
                    find_version(tracking_uri, model.name, model.alias, model.version)
            elif model.kind == "weights":
                _check_weights(model, tracking_uri)


@contextmanager
def naming_model(model: ModelName) -> Iterator[None]:
    """Make errors name the model that they are about, as it was typed."""
    where = f"MODEL {model.text!r:.120}"
    try:
        yield
    except EngineError as error:
        raise EngineError(error.what, where=where, fix=error.fix.replace(" of `controls`", "")) from error
    except RlftError as error:
        if error.where not in (*_UNTYPED, model.text):
            raise
        raise type(error)(error.what, where=where, fix=error.fix) from error


def _check_weights(model: ModelName, tracking_uri: str) -> None:
    check_model_folder(model.name)
    if expanded(model.name).is_dir():
        return
    with answering(tracking_uri):
        meant = _of_this_home(model, tracking_uri)
    if meant is not None:
        kind, name, written = meant
        hub = f"{model.name}@main" if model.revision is None else f"{model.name}@COMMIT"
        raise ConfigError(
            f"it is taken for a name on the Hub, but a {kind} is called {name}",
            fix=f"write {written}, or {hub} for the model on the Hub",
        )
    check_origin(PolicyConfig(model=model.name, revision=model.revision))


def _of_this_home(model: ModelName, tracking_uri: str) -> tuple[str, str, str] | None:
    """Return what a name like one on the Hub means if this home has it: what it is, its name, and how it is written."""
    if model.revision is None and _is_run(model.name):
        return "run", model.name, f"{model.name}:best"
    name, slash, number = model.name.partition("/")
    found = None if slash and not number.isdecimal() else _registered(name, tracking_uri)
    if found is None:
        return None
    if slash and model.revision is None:
        return "registered model", name, f"models:/{name}/{number}"
    if not slash and (model.revision is None or model.revision in found.aliases):
        usual = CHAMPION if CHAMPION in found.aliases or not found.aliases else min(found.aliases)
        return "registered model", name, f"models:/{name}@{model.revision or usual}"
    return None


def _is_run(name: str) -> bool:
    """Return whether a run has this very name, as a beginning of it may be that of a model on the Hub."""
    try:
        found = find_run(name)
    except RlftError:
        return False
    return found.pipeline is not None and found.pipeline.name == PIPELINE and name in (found.name, name_of(found))


def _registered(name: str, tracking_uri: str) -> RegisteredModel | None:
    client = MlflowClient(tracking_uri=tracking_uri, registry_uri=tracking_uri)
    try:
        return client.get_registered_model(name)
    except MlflowException as cause:
        if cause.error_code not in ABSENT:
            raise
        return None
