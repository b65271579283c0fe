"""Fetches what a config's section `tasks.use` asks for."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from mlops.registry.named import current_champion
from mlops.registry.noted_tasks import trained_on
from mlops.tracking.address import tracking_address
from mlops.tracking.answers import answering
from mlops.tracking.reach import PATIENT_HTTP
from mlops.use.datasets import find_records
from mlops.use.traces import find_traces
from rlft.config import UseConfig
from rlft.contamination.texts import Text
from rlft.tasks.use import Record, Use

logger = logging.getLogger(__name__)


def fetch_use(settings: UseConfig | None, tracking_uri: str, name: str, demonstrations: Sequence[Text]) -> Use | None:
    """Return the records of use that the settings ask for; `None` without settings or an address (`""`).

    `name` is that of the registered model, whose champion's tasks are looked up for `fresh`, and `demonstrations` what
    the run imitates. Raises TaskError if the experiment or data set is not there, and TrackerError if MLflow does not
    answer.
    """
    if settings is None or not tracking_uri:
        return None
    address = tracking_address(tracking_uri)
    with answering(address, PATIENT_HTTP):
        return Use(
            where=f"{settings.source} {settings.experiment or settings.dataset}",
            records=_records(settings, address),
            demonstrations=tuple(demonstrations),
            trained_before=_trained_before(address, name) if settings.fresh else frozenset(),
        )


def _records(settings: UseConfig, address: str) -> tuple[Record, ...]:
    start, end = settings.period(datetime.now(UTC))
    if settings.dataset is not None:
        return find_records(address, settings.dataset, settings.tags, start, end)
    assert settings.experiment is not None, "the config has one of the two"
    return find_traces(address, settings.experiment, settings.tags, start, end)


def _trained_before(address: str, name: str) -> frozenset[str]:
    """Return the hashes of what the champion was trained on; none, with a warning, if it is not known."""
    champion = current_champion(address, name)
    if champion is None:
        return frozenset()
    known = trained_on(address, champion.run_id) if champion.run_id else None
    if known is None:
        logger.warning(
            "what version %s of %s was trained on is not known, so tasks.use.fresh leaves nothing out",
            champion.version,
            name,
        )
    return known or frozenset()
