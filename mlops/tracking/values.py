"""Brings what is logged into the form and length that MLflow takes, without secrets."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from mlflow.entities import Dataset, DatasetInput, InputTag

from rlft.texts import secrets
from rlft.types import SPLITS, TaskSet

MAX_VALUE, MAX_TAG, MAX_DIGEST = 6000, 5000, 36  # characters that MLflow takes of a parameter, a tag and a digest


def redact(text: str, tracking_uri: str = "") -> str:
    """Return the text without secrets, user names in addresses, and the password of `tracking_uri`."""
    password = urlsplit(tracking_uri).password if tracking_uri else None
    return secrets.hide(secrets.redact(text.replace(password, secrets.MASK) if password else text))


def reason_of(cause: Exception, tracking_uri: str) -> str:
    """Return the first line of what went wrong at a tracking server, for a log: at most 300 characters, no secrets."""
    return short(f"{type(cause).__name__}: {cause}", tracking_uri)


def short(text: str, tracking_uri: str) -> str:
    """Return the first line of a text without secrets, cut at 300 characters."""
    return redact(text, tracking_uri).splitlines()[0][:300]


def flatten(nested: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return {`outer.inner`: text}; lists become JSON, values are cut at MLflow's 6,000 characters."""
    flat: dict[str, str] = {}
    for key, value in nested.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{name}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
            flat[legal_name(name)] = text[:MAX_VALUE]
    return flat


def legal_name(name: str) -> str:
    """Return the name as MLflow takes it: `@` becomes `_at_`, other signs that it refuses and empty parts become `_`.

    One that was changed so, or has more than 250 characters, ends with a part of its hash, so that two names stay two.
    """
    name = name.replace("@", "_at_")
    parts = (re.sub(r"[^\w.\- :]", "_", part) if part.strip(".") else "_" for part in name.split("/"))
    legal = "/".join(parts)[:250]
    return legal if legal == name else f"{legal[:243]}_{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def describe_tasks(tasks: TaskSet, source: str) -> list[dict[str, Any]]:
    """Return the fields of an MLflow data set for each split that has tasks, as JSON can hold them."""
    described = []
    for split in SPLITS:
        rows = tasks.split(split)
        if rows:
            described.append(
                {
                    "name": f"{rows[0].environment.rsplit(':', 1)[-1]}-{split}",
                    "digest": tasks.fingerprint[:MAX_DIGEST],
                    "source": json.dumps({"tags": {"source": redact(source), "fingerprint": tasks.fingerprint}}),
                    "profile": json.dumps({"num_rows": len(rows), "num_groups": len({task.group for task in rows})}),
                    "split": split,
                }
            )
    return described


def dataset_input(fields: Mapping[str, Any]) -> DatasetInput:
    """Return one of `describe_tasks` as MLflow's entity."""
    # `code` is the type of source whose content MLflow takes as it is.
    dataset = Dataset(fields["name"], fields["digest"], "code", fields["source"], profile=fields["profile"])
    return DatasetInput(dataset, tags=[InputTag("mlflow.data.context", fields["split"])])
