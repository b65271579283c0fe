"""Goes on with a run that takes a round from the cache and needs weights of it which `policy.keep` has removed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mlops.ids import name_of_first, resumed_name
from rlft.errors import WeightsRemovedError
from rlft.terminal import errors


def with_weights(begin: Callable[[], Any], pipeline: Any, arguments: Mapping[str, Any], name: str) -> Any:
    """Begin an attempt at a run, and go on with another one if it needs weights that were removed.

    `begin` begins the one called `name`, of a `pipeline` with these `arguments`. Whether a round needs weights is known
    once the steps after it are not in the cache, which ZenML looks for one by one. The other attempt is part of the
    same run, in MLflow, too; it trains the removed policies again, from cached rollouts.
    """
    try:
        return begin()
    except WeightsRemovedError as removed:
        from zenml.client import Client

        from mlops.runs.policies import forget_removed
        from mlops.runs.resuming import steps_with_weights

        ended = Client().get_pipeline_run(name, allow_name_prefix_match=False)
        kept = steps_with_weights(ended)
        forget_removed()
        errors.print(f"{removed.what}; they are trained again, from cached rollouts")
        another = resumed_name(name_of_first(name))
        going_on = pipeline.with_options(run_name=another)
        return going_on.replay(pipeline_run=ended.id, skip=kept, input_overrides=arguments)
