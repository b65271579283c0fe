"""Opens the models that `rlft evaluate` is given: as policy artifacts, or as models behind an address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlops.home.folder import find_home
from mlops.ids import step_id
from mlops.registry.named import NamedVersion, find_version
from mlops.stored.named_models import naming_model
from mlops.stored.policies import stored_policy
from mlops.tracking.address import tracking_address
from mlops.tracking.answers import answering
from pipelines.scenarios import sampling_of, step_names
from pipelines.showing import Show, unshown
from pipelines.stages import Artifact
from rlft.config import ModelControl, PolicyConfig, SuiteConfig
from rlft.engines.chat_endpoint import AskedModel
from rlft.files import expanded
from rlft.suites.folders import check_model_folder, is_policy_folder
from rlft.suites.models import ModelName, labels_of
from steps.ask_model import ask_model
from steps.fetch_version import fetch_version
from steps.open_model import open_model
from steps.take_policy import take_policy

STEPS = [ask_model, fetch_version, open_model, take_policy]
"""The steps that are called here."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A model that can be evaluated: its label, its policy artifact, and what MLflow knows of it, if anything."""

    label: str
    named: ModelName
    policy: Artifact
    version: NamedVersion | None = None

    @property
    def is_asked(self) -> bool:
        """Whether it is behind an address."""
        return self.named.kind == "endpoint"

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
