"""What is known of a version when it is registered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlft.blocks import Block
from rlft.card.licence import Licence
from rlft.types import EvaluationReport


@dataclass(frozen=True, slots=True)
class Facts:
    """Holds what is known of a version.

    `name` is that of the registered model and `run_name` that of the run in ZenML, `run_id` its id in MLflow. `policy`
    is the contents of `policy.json`, `shown` those of `context.json`, `config` the run's settings. `tags` are those of
    the run, and `code` says exactly what ran: commits, fingerprints, versions of packages. `reports` are the
    evaluations of the arms (`base`, `warm_start`, `trained`, `champion`, `constant`) by split, `audit` the report of
    the reward audit, if there was one.

    `source` says in one line where the tasks come from, `sizes` how many each split has, `fingerprint` which they are.
    `reward` are paragraphs on what the reward pays, `results` what came of the run, `simpler`
    those on whether something simpler would do, and `reasons` those of the decision on promotion. `caveats` say what
    the results do not show. All are plain text.
    """

    name: str
    run_name: str
    run_id: str
    policy: Mapping[str, Any]
    shown: Mapping[str, Any]
    config: Mapping[str, Any]
    tags: Mapping[str, str]
    reports: Mapping[str, Mapping[str, EvaluationReport]]
    source: str
    sizes: Mapping[str, int]
    fingerprint: str
    reward: Sequence[str]
    results: Sequence[Block]
    simpler: Sequence[str] = ()
    reasons: Sequence[str] = ()
    caveats: Sequence[str] = ()
    audit: Mapping[str, Any] | None = None
    licence: Licence | None = None
    code: Mapping[str, Any] = field(default_factory=dict)

    @property
    def environment(self) -> str:
        """The name of the environment in the config, or the names of several."""
        return ", ".join(self.config.get("environments", {})) or str(self.config["environment"]["name"])

    @property
    def base(self) -> str | None:
        """The name or folder of the base model; `None` for a model that was made from nothing."""
        return self.policy.get("base_model")
