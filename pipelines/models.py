"""The models that `rlft evaluate` is given: looked up, then opened as policy artifacts or as models behind an address.

They are looked up before an evaluation begins: then a mistyped one leaves no run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlops.home.folder import Home, find_home
from mlops.ids import step_id
from mlops.registry.client import NamedVersion, find_version
from mlops.runs.policies import stored_policy
from mlops.tracking.address import answering, tracking_address
from pipelines.scenarios import sampling_of, step_names
from pipelines.showing import Show, unshown
from pipelines.stages import Artifact
from rlft.config import ModelControl, PolicyConfig, SuiteConfig
from rlft.engines.chat_endpoint import AskedModel
from rlft.errors import RlftError
from rlft.estimation.readiness import check_origin
from rlft.evaluation.model_names import ModelName, check_model_folder, is_policy_folder, labels_of
from rlft.files import expanded
from steps.policies import ask_model, fetch_version, open_model, take_policy

# What an error says that knows nothing of the command line: settings that nobody typed, and the argument of others.
_UNTYPED = ("", "RUN", "endpoint", "policy.model", "policy.revision")


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
                _check_weights(model)


@contextmanager
def naming_model(model: ModelName) -> Iterator[None]:
    """Make errors name the model that they are about, as it was typed."""
    where = f"MODEL {model.text!r:.120}"
    try:
        yield
    except RlftError as error:
        if error.where not in (*_UNTYPED, model.text):
            raise
        raise type(error)(error.what, where=where, fix=error.fix) from error


def _check_weights(model: ModelName) -> None:
    check_model_folder(model.name)
    if not expanded(model.name).is_dir():
        try:
            check_origin(PolicyConfig(model=model.name, revision=model.revision))
        except RlftError as error:
            error.fix += "; a run's model is RUN:best, and a registered one models:/NAME@ALIAS"
            raise


STEPS = [ask_model, fetch_version, open_model, take_policy]
"""The steps that are called here."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A model that can be evaluated: its label, its policy artifact, and what MLflow knows of it, if anything."""

    label: str
    named: ModelName
    policy: Artifact
    version: NamedVersion | None = None

    def facts(self) -> dict[str, Any]:
        """Return what identifies the model, as JSON."""
        known: dict[str, Any] = {"model": self.named.text, "kind": self.named.kind}
        loaded = self.policy.load()
        if isinstance(loaded, AskedModel):
            return known | {"endpoint": loaded.endpoint, "calls_itself": loaded.calls_itself}
        metadata = loaded.metadata
        known |= {"weights_hash": metadata.weights_hash, "stage": metadata.stage, "round": metadata.round}
        known |= {"base_model": metadata.base_model, "base_revision": metadata.base_revision}
        if self.version is not None:
            known |= {"version": self.version.version, "logged_model": self.version.model_id}
        return known


def open_models(
    models: Sequence[ModelName],
    suite: SuiteConfig,
    tasks: Mapping[str, Artifact],
    tracking_uri: str,
    *,
    api_key: str | None = None,
    show: Show = unshown,
) -> dict[str, Opened]:
    """Return the models by their labels, in their order, before any is evaluated: one may not load or answer.

    `tasks` are those of the cells; an endpoint is asked about the first of them. `api_key` is `env:NAME` for the
    variable that holds the endpoints' key. Raises RlftError, which names the model, for one that is not there.
    """
    labels = labels_of(models)
    ids = step_names(labels)
    found: dict[str, Opened] = {}
    for label, model in zip(labels, models, strict=True):
        with show(f"model {label}", "model"), naming_model(model):
            found[label] = _open(model, label, ids[label], suite, tasks, tracking_uri, api_key)
    return found


def _open(
    model: ModelName,
    label: str,
    place: str,
    suite: SuiteConfig,
    tasks: Mapping[str, Artifact],
    tracking_uri: str,
    api_key: str | None,
) -> Opened:
    if model.kind == "endpoint":
        return Opened(label, model, _ask(model, suite, tasks, api_key, place))
    if model.kind == "run":
        assert model.policy is not None
        return Opened(label, model, stored_policy(find_home(), model.name, model.policy, model.round))
    if model.kind == "registry":
        address = tracking_address(tracking_uri)
        with answering(address):
            version = find_version(address, model.name, model.alias, model.version)
        policy = fetch_version(tracking_uri, version.name, version.version, id=step_id("fetch_version", place))
        return Opened(label, model, policy, version)
    folder = expanded(model.name)
    if is_policy_folder(folder):
        return Opened(label, model, take_policy(str(folder.resolve()), id=step_id("take_policy", place)))
    return Opened(label, model, _load(model, folder, suite, place))


def _load(model: ModelName, folder: Path, suite: SuiteConfig, place: str) -> Artifact:
    check_model_folder(model.name)
    named = PolicyConfig(
        model=str(folder.resolve()) if folder.is_dir() else model.name,
        revision=model.revision,
        **{name: getattr(suite.policy, name) for name in type(suite.policy).model_fields},
    )
    pairs = {f"{cell.environment} {cell.harness}": (cell.environment, cell.harness) for cell in suite.cells()}
    environments, harnesses = zip(*pairs.values(), strict=True)
    return open_model(named, list(environments), list(harnesses), suite.seed, id=step_id("open_model", place))


def _ask(
    model: ModelName, suite: SuiteConfig, tasks: Mapping[str, Artifact], api_key: str | None, place: str
) -> Artifact:
    first = suite.cells()[0]
    asked = ModelControl(model=model.name, endpoint=model.address, api_key=api_key)
    return ask_model(
        tasks[first.name], asked, first.environment, sampling_of(suite, first), id=step_id("ask_model", place)
    )
