"""The view of an experiment's runs that `rlft ui` opens: what came of each at a glance, the best first.

MLflow keeps a shared view as a tag of the experiment, as JSON of its page's state (3.17).
"""

from __future__ import annotations

import json

from mlflow import MlflowClient

from mlops.tracking.address import answering

_KEY = "rlft"
VIEW_TAG = f"mlflow.sharedViewState.{_KEY}"
_GAIN = "metrics.`0_result/gain`"
# The columns in their order, and how wide they are, in pixels: as wide as their titles.
_COLUMNS = {
    "attributes.`Run Name`": 250,
    "tags.`rlft.status`": 110,
    "tags.`rlft.metric`": 100,
    "metrics.`0_result/before`": 125,
    "metrics.`0_result/after`": 115,
    _GAIN: 105,
    "metrics.`0_result/gain_low`": 135,
    "metrics.`0_result/gain_high`": 140,
    "attributes.`Models`": 150,
    "runDateAndNestInfo": 140,
}
VIEW = json.dumps(
    {
        "orderByKey": _GAIN,
        "orderByAsc": False,
        "selectedColumns": list(_COLUMNS),
        "columnOrder": list(_COLUMNS),
        "columnWidths": _COLUMNS,
    }
)


def newest_view(tracking_uri: str) -> tuple[str, str] | None:
    """Return the experiment in which a run with a result, or that will have one, began last, and where its view is.

    They are its name, and what comes behind the address of the server; `None` without such a run. Raises TrackerError
    if MLflow does not answer.
    """
    with answering(tracking_uri):
        client = MlflowClient(tracking_uri)
        found = client.search_experiments(filter_string=f"tags.`{VIEW_TAG}` LIKE '%'")
        names = {each.experiment_id: each.name for each in found}
        order = ["attributes.start_time DESC"]
        runs = (
            client.search_runs([*names], "tags.`rlft.status` LIKE '%'", order_by=order, max_results=1) if names else []
        )
        if not runs:
            return None
        own = runs[0].info.experiment_id
        return names[own], f"/#/experiments/{own}/runs?workflowType=machine_learning&viewStateShareKey={_KEY}"
