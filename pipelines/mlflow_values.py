"""What goes to MLflow, in the form and length it takes, and without secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from mlflow.entities import Dataset, DatasetInput, InputTag

from rlft.types import SPLITS, TaskSet

MAX_VALUE, MAX_TAG, MAX_DIGEST = 6000, 5000, 36
SECRET_NAME = re.compile(r"(^|[._-])(api_?key|passw(or)?d|secret|(access_|auth_)?token|credentials?)$", re.IGNORECASE)


def redact(text: str, tracking_uri: str = "") -> str:
    """The text without user names and passwords in addresses, and without the password of `tracking_uri`."""
    password = urlsplit(tracking_uri).password if tracking_uri else None
    if password:
        text = text.replace(password, "***")
    return re.sub(r"://[^/\s@]+@", "://***@", text)


def hide_secrets(content: Any, name: str = "") -> Any:
    """A copy in which texts under names such as `api_key`, `password` or `token` are `***`; numbers stay."""
    if isinstance(content, Mapping):
        return {str(key): hide_secrets(value, str(key)) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [hide_secrets(value, name) for value in content]
    if isinstance(content, str):
        return "***" if content and SECRET_NAME.search(name) else redact(content)
    return content


def flatten(nested: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """{`outer.inner`: text}; lists become JSON, values are cut at MLflow's 6,000 characters."""
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
    """The name as MLflow takes it: `@` becomes `_at_`, other signs it refuses `_`, at most 250 characters."""
    return re.sub(r"[^/\w.\- :]", "_", name.replace("@", "_at_"))[:250]


def describe_tasks(tasks: TaskSet, source: str) -> list[dict[str, Any]]:
    """Fields of one MLflow data set for each split that has tasks."""
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
    """One of `describe_tasks` as MLflow's entity. `code` is the source type whose content it takes as it is."""
    dataset = Dataset(fields["name"], fields["digest"], "code", fields["source"], profile=fields["profile"])
    return DatasetInput(dataset, tags=[InputTag("mlflow.data.context", fields["split"])])
