"""Names that registered versions and the runs that register them share; nothing heavy is imported for them."""

from collections.abc import Mapping

ABSENT = {"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"}  # MLflow's errors for what is not there
REGISTRATION = "register_policy"  # the id of a run's last step
RUN_NAME_TAG = "zenml.run_name"  # of a version and an MLflow run: ZenML's name of the run that made it
CHAMPION, CHALLENGER = "champion", "challenger"
FORMAT_TAG = "rlft.format"  # of a version: that of its tags and files (`rlft.formats.VERSION`)
RUN_TAG, MODEL_TAG = "rlft.run_id", "rlft.model_id"
# Of a version: that its aliases were set, that its gate was passed, and that changes of `champion` are noted since.
DONE_TAG, PROMOTE_TAG, NOTED_TAG = "rlft.aliases_set", "rlft.promote", "rlft.changes_noted"
# Of a version: whether a person has approved it; which champion its gate compared it with (no text: none), that one's
# hash of weights, and the tag of the registered model that holds which look at its gate this was.
APPROVAL_TAG = "rlft.approval"
COMPARED_TAG, COMPARED_HASH_TAG, DECIDED_TAG = "rlft.compared.version", "rlft.compared.weights_hash", "rlft.decided_at"
VERDICT_TAG = "rlft.verdict"  # of a version: who decided about it, when and why
WITHHELD_TAG = "rlft.withheld"  # of a version: why it did not become champion although its gate was passed
REASONS_TAG = "rlft.reasons"  # of a version: the sentences of its decision
SCORE_TAG = "rlft.score."  # of a version, with the metric that decides behind it: its mean on the gate
RULE_TAG = "rlft.rule."  # of a version, with the kind of a rule behind it: whether that `passes` or `fails`
HASH_TAG = "rlft.weights_hash"  # of a logged model, and of the version that is made of it
FILES_TAG = "rlft.files_hash"  # of a version: that of all its files; versions of earlier rlft have none

RECORDS = frozenset(
    {
        FORMAT_TAG,
        RUN_TAG,
        MODEL_TAG,
        DONE_TAG,
        PROMOTE_TAG,
        NOTED_TAG,
        COMPARED_TAG,
        COMPARED_HASH_TAG,
        DECIDED_TAG,
        VERDICT_TAG,
        REASONS_TAG,
        HASH_TAG,
        FILES_TAG,
    }
)
"""The tags of a version that rlft reads again and no person needs; `mlops.registry.client` says how they are stored."""
HIDDEN = "mlflow."
"""Begins the names of tags that MLflow keeps for machines, and shows nobody."""


def plain_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Return tags of a version with its records under their plain names; a hidden one is newer than a plain one."""
    hidden = {HIDDEN + key: key for key in RECORDS}
    plain = {key: kept for key, kept in tags.items() if key not in hidden}
    return plain | {hidden[key]: kept for key, kept in tags.items() if key in hidden}
