"""Names that registered versions and the runs that register them share; nothing heavy is imported for them."""

import json
import logging
from collections.abc import Mapping

logger = logging.getLogger(__name__)

ABSENT = {"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"}  # MLflow's errors for what is not there
REGISTRATION = "register_policy"  # the id of a run's last step
ZENML_TAG = "zenml.run_id"  # of a version and an MLflow run: ZenML's id of the run that made it
RUN_NAME_TAG = "zenml.run_name"  # of a version and an MLflow run: ZenML's name of the run that made it
CHAMPION, CHALLENGER = "champion", "challenger"
FORMAT_TAG = "rlft.format"  # of a version: that of its tags and files (`rlft.formats.VERSION`)
RUN_TAG, MODEL_TAG = "rlft.run_id", "rlft.model_id"
PROMOTE_TAG = "rlft.promote"  # of a version: whether its gate was passed
# Of a version: whether a person has approved it; which champion its gate compared it with (no text: none), that one's
# hash of weights, and the tag of the registered model that holds which look at its gate this was.
APPROVAL_TAG = "rlft.approval"
COMPARED_TAG, COMPARED_HASH_TAG, DECIDED_TAG = "rlft.compared.version", "rlft.compared.weights_hash", "rlft.decided_at"
VERDICT_TAG = "rlft.verdict"  # of a version: who rejected it, when and why
WITHHELD_TAG = "rlft.withheld"  # of a version: why it did not become champion although its gate was passed
AGAIN_TAG = "rlft.decided_again"  # of a version: why the newest comparison, made once more, has not promoted it
REASONS_TAG = "rlft.reasons"  # of a version: the sentences of its decision
SCORE_TAG = "rlft.score."  # of a version, with the metric that decides behind it: its mean on the gate
PASSED_TAG = "rlft.gate"  # of a version: whether it `passes` its gate, or which of its rules it fails
HASH_TAG = "rlft.weights_hash"  # of a logged model, and of the version that is made of it
FILES_TAG = "rlft.files_hash"  # of a version: that of all its files; versions of earlier rlft have none

RECORD_TAG = "rlft.record"  # of a version: the id under which its registered model has its records
RECORDS = frozenset(
    {
        FORMAT_TAG,
        ZENML_TAG,
        RUN_NAME_TAG,
        RUN_TAG,
        MODEL_TAG,
        COMPARED_TAG,
        COMPARED_HASH_TAG,
        DECIDED_TAG,
        REASONS_TAG,
        HASH_TAG,
        FILES_TAG,
        PROMOTE_TAG,
        VERDICT_TAG,
        WITHHELD_TAG,
        AGAIN_TAG,
        RECORD_TAG,
        "rlft.round",
        "rlft.name",
        "rlft.environment",
    }
)
"""The tags of a version that rlft reads again and no person needs; `mlops.registry.client` says how they are stored."""
# Of a registered model: how often a gate was looked at, and changes of `champion` (`mlops.registry.gates`, `.changes`).
GATE_TAG, LOOK_TAG, DIFFERS_TAG = "rlft.gate.", "rlft.look.", "rlft.differs."
CHANGE_TAG = "rlft.change."
LOGS = (GATE_TAG, LOOK_TAG, DIFFERS_TAG, CHANGE_TAG)
"""Begin the names of tags of a registered model that rlft reads again and no person needs."""
HIDDEN = "mlflow."
"""Begins the names of tags that MLflow keeps for machines, and shows nobody."""


def stored_key(key: str) -> str:
    """Return the name under which a tag of a version or of a registered model is stored."""
    return HIDDEN + key if key in RECORDS or key.startswith(LOGS) else key


def plain_tags(tags: Mapping[str, str], of_model: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return tags with the records among them, and those that `of_model` has of the version, under their plain names.

    Of several of one name the one that was set later counts.
    """
    plain = {_plain_key(key): kept for key, kept in tags.items()}
    own, of_model = plain.pop(RECORD_TAG, ""), of_model or {}
    stored = record_key(own)
    later = {key.removeprefix(f"{stored}."): kept for key, kept in of_model.items() if key.startswith(f"{stored}.")}
    return plain | _unpacked(of_model.get(stored, "{}")) | later


def record_key(own: str) -> str:
    """Return the tag of a registered model that holds the records of the version whose `RECORD_TAG` is this."""
    return f"{HIDDEN}{RECORD_TAG}.{own}"


def _plain_key(key: str) -> str:
    plain = key.removeprefix(HIDDEN)
    return plain if stored_key(plain) == key else key


def _unpacked(text: str) -> dict[str, str]:
    """Return the records that a tag holds; of one that rlft has not written so none, with a warning."""
    try:
        record = json.loads(text)
        return {key: kept for key, kept in record.items() if key in RECORDS and isinstance(kept, str)}
    except (ValueError, AttributeError, RecursionError):  # no JSON, or no object
        logger.warning("the tag %s%s of a version is damaged, and is left out: %s", HIDDEN, RECORD_TAG, text[:80])
        return {}
