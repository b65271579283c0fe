"""What a run asks of MLflow about its gate: what it can see, which look this is, who has trained on it."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Sequence

import numpy as np

from mlops.registry.gates import count_look, look_tag, past_looks, trained_on
from mlops.tracking.address import PATIENT_HTTP, answering
from mlops.tracking.run import Tracker
from rlft.config import Config
from rlft.errors import FixedSettingError, TrackerError
from rlft.evaluation.gates import Look, next_look, task_hash, why_refused
from rlft.evaluation.power import few_groups, gate_sentence
from rlft.evaluation.statistics import effective_groups
from rlft.tasks.ingest import fingerprint_tasks
from rlft.types import Task

logger = logging.getLogger(__name__)

# Settings of an evaluation that change no verdict: when to validate, and what is compared beside the gate.
_ASIDE = {"validate_every", "patience", "pass_at_k", "forgetting", "forgetting_margin"}
# Settings of a promotion that no verdict depends on, and those that are named apart.
_NO_RULES = {"name", "approval", "min_improvement", "looks"}


def say_what_it_sees(gate: Sequence[Task], config: Config, tracker: Tracker) -> str | None:
    """Return, and log, the smallest gain that a gate is likely to find; `None` if it is too small to promote anything.

    If its looks are spent the sentence says so, and what to do: it is known before the run is paid for.
    """
    sizes = np.array(list(Counter(task.group for task in gate).values()), dtype=np.float64)
    effective = float(effective_groups(sizes)) if len(sizes) else 0.0
    if few := few_groups("gate", len(sizes), effective):
        logger.warning("nothing can be promoted in this run: %s", few)
        return None
    looks = config.promotion.looks
    if refused := why_refused(next_look(_past(gate, config, tracker), looks), looks):
        logger.warning("no further model can be promoted: %s", refused)
        return f"no further model can be promoted: {refused}"
    if config.evaluation.metric == "auto":
        return None  # told when the baseline has shown by what models are compared
    text = gate_sentence(
        len(gate),
        len(sizes),
        effective,
        metric=config.evaluation.metric,
        looks=looks,
        minimum=config.promotion.min_improvement,
    )
    logger.info("%s", text)
    return text


def _past(gate: Sequence[Task], config: Config, tracker: Tracker) -> Look:
    """Return the last look at a gate; its number is 0 before the first one, and if it is not known."""
    if not tracker.is_away:
        try:
            with answering(tracker.tracking_uri):
                return past_looks(tracker.tracking_uri, config.registry_name, gate)
        except TrackerError as cause:
            logger.warning("how often this gate was looked at is not known: %s", cause.what)
    return Look(0, 0.0)


def check_slices(gate: Sequence[Task], config: Config) -> None:
    """Raise FixedSettingError if `promotion.slices` names a column that no task of the gate has."""
    own = ["environment"] if config.environments else []
    columns = sorted({column for task in gate for column in (*task.info, *own)})
    if missing := [column for column in config.promotion.slices if column not in columns]:
        raise FixedSettingError(
            f"no task of the gate has the column {missing[0]!r}",
            where="promotion.slices",
            fix=f"name some of these: {', '.join(columns)}",
        )


def ask_about(
    gate: Sequence[Task],
    policy: str,
    config: Config,
    champion_run: str | None,
    address: str,
    code: str,
) -> tuple[Look, list[str] | None, str]:
    """Count a look at the gate, and return it with the ids of its tasks that the champion was trained on, and with the
    name of the registered model's tag that holds the look.

    `policy` is the identity of the trained one, and `code` a fingerprint of the environment. The ids are none without a
    champion, and `None` if its run has not noted its tasks. Raises TrackerError if MLflow does not take or give it.
    """
    asked = _hash_of_question(policy, gate, config, code)
    with answering(address, PATIENT_HTTP):
        look = count_look(address, config.registry_name, asked, gate, config.promotion.looks)
        known = trained_on(address, champion_run) if champion_run else frozenset[str]()
    ids = None if known is None else [task.id for task in gate if task_hash(task) in known]
    return look, ids, look_tag(asked, gate)


def _hash_of_question(policy: str, gate: Sequence[Task], config: Config, code: str) -> str:
    """Return a hash of what a gate is asked: the same policy judged in any other way is another look.

    What judges it are the gate's tasks as they are shown and scored, the environment with its `code`, reward and
    harness, how answers are sampled, the run's seed, and the rule of the decision.
    """
    judged = config.model_dump(
        mode="json",
        include={"environment", "reward", "harness", "rollout", "evaluation", "seed"},
        exclude={"evaluation": _ASIDE},
    )
    asked = [policy, fingerprint_tasks(gate), code, judged, config.promotion.min_improvement, config.promotion.looks]
    rules = config.promotion.model_dump(mode="json", exclude=_NO_RULES, exclude_defaults=True)
    asked += [rules] if rules else []  # so that looks which were counted before there were rules are known again
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
