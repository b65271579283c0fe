"""Scorers of MLflow (`mlflow.genai`): finds those that a suite names, and lets them score attempts.

They are called one by one with what they ask for by the names of their arguments, as in `mlflow.genai.evaluate`:
`inputs` ({"messages": prompt}), `outputs` (the last answer), `expectations` ({"expected_response": answer}) and
`trace`.
"""

from __future__ import annotations

import difflib
import hashlib
import logging
import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlflow.entities import Feedback, Trace, TraceData, TraceInfo, TraceLocation, TraceState

from mlops.tracking.traces import prompt_count, rollout_spans, trace_id, trace_key
from rlft.contract.importing import Name, import_named
from rlft.errors import ConfigError
from rlft.messages import as_openai
from rlft.progress import Meter, Progress, silent
from rlft.secrets import hide
from rlft.suites.scorers import ScorerScores
from rlft.thinking import answer_of
from rlft.types import Rollout, Rollouts, Task, TaskSet

if TYPE_CHECKING:  # else where they are needed: importing them takes seconds
    from mlflow.genai.scorers import Scorer

logger = logging.getLogger(__name__)
_SETTING = "scorers"


def load_scorers(names: Sequence[str]) -> list[Scorer]:
    """Return the scorers of these names: `FILE.py:NAME`, `package.module:NAME`, or a built-in one such as `Safety`.

    Raises ConfigError, which says what there is, or EnvironmentSetupError for a file that cannot be imported. A
    built-in one that needs arguments is made in a file of the user's.
    """
    found = [_load(name) for name in names]
    called = [scorer.name for scorer in found]
    if repeated := [name for name in called if called.count(name) > 1]:
        raise ConfigError(f"two scorers are called {repeated[0]!r}", where=_SETTING, fix="give one another name")
    return found


def _load(name: str) -> Scorer:
    from mlflow.genai import scorers
    from mlflow.genai.scorers import Scorer

    if ":" in name:
        named = Name.read(name, _SETTING, "NAME")
        module = import_named(named)
        found = getattr(module, named.attribute, None)
        if not isinstance(found, Scorer):
            there = [each for each, value in vars(module).items() if isinstance(value, Scorer)]
            raise _no_scorer(name, found, sorted(there))
        return found
    kind = getattr(scorers, name, None)
    if not (isinstance(kind, type) and issubclass(kind, Scorer)) or kind is Scorer:
        near = difflib.get_close_matches(name, _built_in(), n=1)
        fix = f"write FILE.py:NAME, or one of {', '.join(_built_in())}"
        raise ConfigError(
            f"MLflow has no scorer {name!r}", where=_SETTING, fix=f"did you mean {near[0]}? Else {fix}" if near else fix
        )
    try:
        return kind()  # type: ignore[reportCallIssue]
    except Exception as cause:  # whatever its constructor throws
        said = " ".join(str(cause).split())[:200]
        raise ConfigError(
            f"{name} cannot be made without arguments: {hide(said)}",
            where=_SETTING,
            fix=f"make it in a file, as `mine = {name}(...)`, and name FILE.py:mine",
        ) from cause


def _no_scorer(name: str, found: Any, there: list[str]) -> ConfigError:
    """Return the error for what a file has in the place of a scorer, `None` if nothing; `there` are its scorers."""
    kind = "there is no such name in it" if found is None else f"it is a {type(found).__name__}"
    near = difflib.get_close_matches(name.rpartition(":")[2], there, n=1)
    mark = "put @mlflow.genai.scorer before it"
    fix = f"name one that the file has: {', '.join(there)}" if there else mark
    if there and found is not None:
        fix = f"{mark}, or {fix}"
    return ConfigError(
        f"{name} is no scorer: {kind}", where=_SETTING, fix=f"did you mean {near[0]}? Else {fix}" if near else fix
    )


def _built_in() -> list[str]:
    from mlflow.genai import scorers

    kinds = {name: getattr(scorers, name) for name in dir(scorers)}
    own = [name for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, scorers.Scorer)]
    return [name for name in own if name != "Scorer"]


def scorers_digest(names: Sequence[str]) -> str:
    """Return a hash of what the scorers do, as far as MLflow can tell; of a file its whole text counts."""
    from mlflow.genai.scorers.scorer_utils import get_scorer_definition_digest

    digests = [get_scorer_definition_digest(scorer) or "" for scorer in load_scorers(names)]
    modules = [import_named(Name.read(name, _SETTING, "NAME")).__name__ for name in names if ":" in name]
    return hashlib.sha256(repr([digests, modules]).encode()).hexdigest()


def score_attempts(
    scorers: Sequence[Scorer], rollouts: Rollouts, tasks: TaskSet, progress: Progress = silent
) -> ScorerScores:
    """Let every scorer score every attempt that did not fail; what it raises is the attempt's error, and no 0."""
    values: dict[str, dict[str, Any]] = {}
    errors: dict[str, dict[str, str]] = {}
    reasons: dict[str, dict[str, str]] = {}
    started, by_id = time.perf_counter(), tasks.by_id()
    rows = [row for row in rollouts if row.error is None]
    meter = Meter(progress, len(rows), "attempts")
    for row in rows:
        given = arguments_of(row, by_id[row.task_id])
        for scorer in scorers:
            for name, value, reason, error in _ask(scorer, given):
                if error is not None:
                    errors.setdefault(name, {})[row.rollout_id] = error
                elif value is not None:
                    values.setdefault(name, {})[row.rollout_id] = value
                if reason:
                    reasons.setdefault(name, {})[row.rollout_id] = reason
        meter.add()
    for name, wrong in errors.items():
        first = next(iter(wrong.values()))
        logger.warning("the scorer %s failed on %d of %d attempts, first with: %s", name, len(wrong), len(rows), first)
    return ScorerScores(values, errors, reasons, time.perf_counter() - started)


def arguments_of(rollout: Rollout, task: Task) -> dict[str, Any]:
    """Return what a scorer may ask for about an attempt."""
    prompt = prompt_count(rollout, task)
    return {
        "inputs": {"messages": [as_openai(message) for message in rollout.messages[:prompt]]},
        "outputs": answer_of(rollout.messages[prompt:]),
        "expectations": {} if task.answer is None else {"expected_response": task.answer},
        "trace": _trace(rollout, prompt),
    }


def _trace(rollout: Rollout, prompt: int) -> Trace:
    key = trace_key("", rollout)
    milliseconds = max(1, int(rollout.seconds * 1e3))
    info = TraceInfo(
        trace_id=trace_id(key),
        trace_location=TraceLocation.from_experiment_id("0"),
        request_time=0,
        execution_duration=milliseconds,
        state=TraceState.OK,
    )
    return Trace(info, TraceData(rollout_spans(rollout, prompt, key, 0, milliseconds * 1_000_000)))


def _ask(scorer: Scorer, given: Mapping[str, Any]) -> list[tuple[str, Any, str, str | None]]:
    """Return (name, value, rationale, error) of each feedback that a scorer gives."""
    try:
        said = scorer.run(**given)
        found = said if isinstance(said, list) else [said]
        return [_read(scorer.name, each) for each in found if each is not None]
    except Exception as cause:  # whatever a scorer of the user's, or a judge's model, throws
        text = " ".join(f"{type(cause).__name__}: {cause}".split())[:1000]
        return [(scorer.name, None, "", hide(text))]


def _read(name: str, said: Any) -> tuple[str, Any, str, str | None]:
    if isinstance(said, Feedback):
        if said.error is not None:
            return said.name, None, "", hide(said.error.error_message or said.error.error_code or "it failed")[:1000]
        called = name if said.name in ("feedback", "") else said.name
        return called, _plain(said.value), hide(said.rationale or ""), None
    return name, _plain(said), "", None


def _plain(value: Any) -> Any:
    """Return a value that can be stored. Raises ValueError for a number that is none."""
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        if not math.isfinite(value):
            raise ValueError(f"the value {value} is no number")
        return float(value)
    return None if value is None else str(value)
