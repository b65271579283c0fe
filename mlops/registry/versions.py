"""Versions of a policy in the MLflow registry: registers one, and says which is the newest and which is in use.

The alias `challenger` names the newest version, `champion` the one that is in use: both may name the same version.
Here as in `logged_model` and `named` all is done through a client with an address, so no global state is read
or changed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException

from mlops.registry.client import RegistryClient
from mlops.registry.decisions import approval_of, set_aliases
from mlops.registry.logged_model import ServedFiles, damage_of, log_model, upload_files
from mlops.registry.names import (
    APPROVAL_TAG,
    COMPARED_HASH_TAG,
    COMPARED_TAG,
    DECIDED_TAG,
    FILES_TAG,
    FORMAT_TAG,
    HASH_TAG,
    HIDDEN,
    MODEL_TAG,
    PASSED_TAG,
    PROMOTE_TAG,
    REASONS_TAG,
    RUN_TAG,
    WITHHELD_TAG,
    failed_of_all,
    failing,
)
from rlft.evaluation.promotion import Decision, RegisteredVersion
from rlft.texts.blocks import Block, bullets, paragraph, plain
from rlft.types.formats import VERSION

logger = logging.getLogger(__name__)
_LONGEST_DESCRIPTION, _LONGEST_REASONS = 5000, 3500  # a tag of a registered model takes 5,000 characters
_NAME_NOTE = (
    "Models that `rlft` has trained and registered. `champion` names the version that is in use, `challenger` the "
    "newest one. `rlft history` says who was champion when and why, and `rlft rollback` takes a promotion back."
)


def register_policy_version(
    tracking_uri: str,
    run_id: str,
    name: str,
    files: ServedFiles,
    decision: Decision,
    *,
    tags: Mapping[str, str] | None = None,
    alone: AbstractContextManager[None] | None = None,
    approval: bool = False,
    anew: bool = False,
    result: Sequence[Block] = (),
) -> RegisteredVersion:
    """Log a policy under an existing MLflow run, register it, and set its aliases (`mlops.registry.decisions`).

    It becomes `challenger`, and `champion` too if `decision.promote`; with `approval` a person decides about that.
    Weights that this run has registered already are not registered again, and a replay does not undo a rollback. With
    `anew` they may have been decided on before: if they are to be promoted now, by another look or beside another
    champion, they become a version more, as its number says that this came later.
    `tags` say what the decision rested on (`decided_with`), `result` heads the version's description. `alone` keeps
    other processes from registering, if something can; it is entered once, when the weights have been uploaded. Files
    of a version that are damaged are replaced. Raises PolicyError when the folder holds no policy.
    """
    client, policy, tags = RegistryClient(tracking_uri), files.policy, tags or {}
    by = tags if anew and decision.promote else None
    version, model_id, files_hash = _find_version(client, name, run_id, policy["weights_hash"], by), None, ""
    if version is None:
        model_id, files_hash = log_model(client, run_id, name, files)
    else:
        _mend_files(client, run_id, version, files)
    with alone or nullcontext():
        if version is None:
            assert model_id is not None
            own = {**_own_tags(run_id, policy, decision), FILES_TAG: files_hash, MODEL_TAG: model_id}
            waiting = {APPROVAL_TAG: "pending"} if approval and decision.promote else {}
            text = _described(client, run_id, decision, result)
            version = _create_version(client, name, run_id, model_id, {**own, **waiting, **tags}, text)
        set_aliases(client, version)
    return _registered(client, name, str(version.version))


def _mend_files(client: RegistryClient, run_id: str, version: ModelVersion, files: ServedFiles) -> None:
    """Store the files of a version anew if they are damaged."""
    name, number = version.name, version.version
    logger.info("%s: version %s has these weights of this run already", name, number)
    if damage_of(client, version):
        logger.warning("%s: the files of version %s are damaged, and are stored anew", name, number)
        files_hash = upload_files(client, run_id, version.tags[MODEL_TAG], files)
        client.set_model_version_tag(name, number, FILES_TAG, files_hash)


def _registered(client: RegistryClient, name: str, number: str) -> RegisteredVersion:
    """Return a version as the registry has it now."""
    aliases, version = client.get_registered_model(name).aliases, client.get_model_version(name, number)
    held = tuple(sorted(alias for alias, named in aliases.items() if str(named) == number))
    tags, state = version.tags, approval_of(version.tags)
    return RegisteredVersion(name, number, tags.get(MODEL_TAG), held, state, tags.get(WITHHELD_TAG, ""))


def open_name(client: RegistryClient, name: str) -> None:
    """Make the registered model that versions will be added to, unless it is there. Raises what MLflow raises."""
    try:
        client.create_registered_model(name, description=_NAME_NOTE)
    except MlflowException as cause:
        if cause.error_code != "RESOURCE_ALREADY_EXISTS":
            raise


def _own_tags(run_id: str, policy: Mapping[str, Any], decision: Decision) -> dict[str, str]:
    """Return the tags that rlft itself gives to a version."""
    failed = [rule for rule, outcome in decision.rules.items() if outcome == "fails"]
    return {
        FORMAT_TAG: str(VERSION.version),
        RUN_TAG: run_id,
        HASH_TAG: policy["weights_hash"],
        "rlft.round": str(policy.get("round", "")),
        PROMOTE_TAG: str(decision.promote).lower(),
        REASONS_TAG: "\n".join(decision.reasons)[:_LONGEST_REASONS],
        PASSED_TAG: "passes" if decision.promote else f"fails: {', '.join(failed)}" if failed else "fails",
    }


def _described(client: RegistryClient, run_id: str, decision: Decision, result: Sequence[Block]) -> str:
    """Return in Markdown what a version is worth, where it comes from, and the sentences of its decision.

    It is cut at what MLflow's database holds.
    """
    run = client.get_run(run_id).info
    page = f"#/experiments/{run.experiment_id}/runs/{run_id}"
    failed = failing(decision.reasons)
    parts = [
        f"Not promoted: {failed_of_all(decision.reasons)}." if failed else "",  # the table of versions shows its start
        *map(paragraph, result),
        bullets([*failed, *(reason for reason in decision.reasons if reason not in failed)]),
        f"Made by the run [{plain(run.run_name or run_id)}]({page}); see its [report]({page}/artifacts/report.html).",
    ]
    return "\n\n".join(filter(None, parts))[:_LONGEST_DESCRIPTION]


def _find_version(
    client: RegistryClient, name: str, run_id: str, weights_hash: str, by: Mapping[str, str] | None
) -> ModelVersion | None:
    """Return the newest version of these weights that this run has registered, or `None`.

    With `by`, tags of `mlops.registry.decisions.decided_with`, it must also have been made by this decision.
    """
    of_run = client.all_versions(f"name = '{name}' AND run_id = '{run_id}'")
    same = [each for each in of_run if each.tags.get(HASH_TAG) == weights_hash]
    version = max(same, key=lambda each: int(each.version), default=None)
    if version is None or by is None:
        return version
    keys = COMPARED_TAG, COMPARED_HASH_TAG, DECIDED_TAG
    return version if all(version.tags.get(key) == by.get(key) for key in keys) else None


def _create_version(
    client: RegistryClient, name: str, run_id: str, model_id: str, tags: Mapping[str, str], description: str
) -> ModelVersion:
    """Make a version with these tags, but for those by which MLflow knows a run's user and source."""
    open_name(client, name)
    own = {key: kept for key, kept in tags.items() if not key.startswith(HIDDEN)}
    # The usual source, models:/<id>, is looked up by the store with the global tracking address, which is another one.
    source = client.get_logged_model(model_id).artifact_location
    version = client.create_model_version(
        name, source=source, run_id=run_id, model_id=model_id, tags=own, description=description
    )
    # By this tag the page of the logged model leads to the version, as mlflow.register_model does it.
    versions = json.dumps([{"name": name, "version": int(version.version)}])
    client.set_logged_model_tags(model_id, {"mlflow.modelVersions": versions})
    return version
