"""The texts that are stored beside a policy, by the names of their files."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from rlft.card.facts import Facts
from rlft.card.model_card import model_card
from rlft.config.yaml_text import write_yaml
from rlft.secrets import hide, hide_secrets
from rlft.visible import visible_json

_ORIGIN = ("kind", "base_model", "base_revision", "base_hash", "round", "update", "stage", "parent")
_HASHES = ("weights_hash", "content_hash")


def version_files(facts: Facts) -> dict[str, str]:
    """Return {file name: text}: the context, the config, lineage, evaluation, audit and card. Secrets are hidden."""
    files = {
        "context.json": visible_json(dict(facts.shown)),
        "config.yaml": hide(write_yaml(hide_secrets(dict(facts.config)))),
        "lineage.json": _json(lineage(facts)),
        "evaluation.json": _json({arm: _plain(splits) for arm, splits in facts.reports.items()}),
        "README.md": model_card(facts),
    }
    return files if facts.audit is None else {**files, "audit.json": _json(dict(facts.audit))}


def lineage(facts: Facts) -> dict[str, Any]:
    """Return where a version comes from: its run, policy and base, its tasks and code, and the libraries that made it.

    `code` has the fingerprints of environment and reward, commits, and versions of packages; `tags` are the run's own.
    """
    return {
        "model": facts.name,
        "run": facts.run_name,
        "mlflow_run_id": facts.run_id,
        **{key: facts.policy.get(key) for key in (*_ORIGIN, *_HASHES)},
        "tasks": {"source": facts.source, "fingerprint": facts.fingerprint, "splits": dict(facts.sizes)},
        "environment": facts.environment,
        "code": dict(facts.code),
        "tags": dict(sorted(facts.tags.items())),
    }


def _plain(splits: Any) -> dict[str, Any]:
    return {split: dataclasses.asdict(report) for split, report in splits.items()}


def _json(value: Any) -> str:
    """Return visible JSON without secrets; numbers that are not finite, which JSON lacks, become null."""
    return hide(visible_json(json.loads(json.dumps(value), parse_constant=lambda _: None)))
