"""Names that registered versions and the runs that register them share, and what the sentences of a decision say.

Nothing heavy is imported here: the terminal reads them, too.
"""

from __future__ import annotations

from collections.abc import Sequence

ABSENT = {"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"}  # MLflow's errors for what is not there
REGISTRATION = "register_policy"  # the id of a run's last step
ZENML_TAG = "zenml.run_id"  # of a version and an MLflow run: ZenML's id of the run that made it
RUN_NAME_TAG = "zenml.run_name"  # of a version and an MLflow run: ZenML's name of the run that made it
CHAMPION, CHALLENGER = "champion", "challenger"
FORMAT_TAG = "rlft.format"  # of a version: that of its tags and files (`rlft.types.formats.VERSION`)
RUN_TAG, MODEL_TAG = "rlft.run_id", "rlft.model_id"
PROMOTE_TAG = "rlft.promote"  # of a version: whether its gate was passed
# Of a version: whether a person has approved it; which champion its gate compared it with (no text: none), that one's
# hash of weights, and the tag of the registered model that holds which look at its gate this was.
APPROVAL_TAG = "rlft.approval"
COMPARED_TAG, COMPARED_HASH_TAG, DECIDED_TAG = "rlft.compared.version", "rlft.compared.weights_hash", "rlft.decided_at"
VERDICT_TAG = "rlft.verdict"  # of a version: who rejected it, when and why
WITHHELD_TAG = "rlft.withheld"  # of a version: why it did not become champion although its gate was passed
REASONS_TAG = "rlft.reasons"  # of a version: the sentences of its decision
SCORE_TAG = "rlft.score."  # of a version, with the metric that decides behind it: its mean on the gate
PASSED_TAG = "rlft.gate"  # of a version: whether it `passes` its gate, or which of its rules it fails
HASH_TAG = "rlft.weights_hash"  # of a logged model, and of the version that is made of it
FILES_TAG = "rlft.files_hash"  # of a version: that of all its files

HIDDEN = "mlflow."  # begins the names of tags that MLflow keeps for machines, and shows nobody
RECORD_TAG = f"{HIDDEN}rlft.record"  # of a version: its records, as JSON
RECORDS = frozenset(
    {FORMAT_TAG, ZENML_TAG, RUN_NAME_TAG, RUN_TAG, MODEL_TAG, COMPARED_TAG, COMPARED_HASH_TAG, DECIDED_TAG, REASONS_TAG,
     HASH_TAG, FILES_TAG, PROMOTE_TAG, VERDICT_TAG, WITHHELD_TAG, "rlft.round", "rlft.name", "rlft.environment"}
)  # fmt: skip
"""The tags of a version that rlft reads again and no person needs; `mlops.registry.client` says how they are stored."""
# Of a registered model: how often a gate was looked at, and changes of `champion` (`gates`, `decisions`).
GATE_TAG, LOOK_TAG, CHANGE_TAG = (f"{HIDDEN}rlft.{name}." for name in ("gate", "look", "change"))
FAILS = "fails: "  # how the sentence of a rule begins that has failed
_JUDGED = (FAILS, "passes: ")  # how those of all rules do, which are no remarks


def failing(reasons: Sequence[str]) -> list[str]:
    """Return those of the sentences of a decision that kept the policy from being promoted."""
    return [reason for reason in reasons if reason.startswith(FAILS)]


def failed_of_all(reasons: Sequence[str]) -> str:
    """Return how many sentences of a decision say that a rule fails, of all that judge one: `1 of 6 rules fails`."""
    failed, judged = len(failing(reasons)), sum(reason.startswith(_JUDGED) for reason in reasons)
    return f"{failed} of {judged} rules {'fails' if failed == 1 else 'fail'}"
