"""The improvement on the gate: trained minus each rival must exceed a minimum."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rlft.comparison import compare
from rlft.noninferiority import obstacle_of
from rlft.promotion.rules import Verdict
from rlft.promotion.sentences import absent, incomparable, of_known_tasks, sentence
from rlft.types import EvaluationReport, Interval


def judge_improvement(
    trained: EvaluationReport,
    rivals: Mapping[str, EvaluationReport | None],
    metric: str,
    minimum: float,
    confidence: float,
    champion_knows: Collection[str] | None,
) -> tuple[list[Verdict], dict[str, Interval]]:
    """Return a verdict for each rival, and the differences to those that could be compared.

    `None` stands for a rival that there is not. `champion_knows` are ids of tasks that the champion was trained on,
    which are left out of the comparison with it; `None` if they are not known. Raises ValueError if a report lacks the
    metric.
    """
    verdicts: list[Verdict] = []
    comparisons: dict[str, Interval] = {}
    for name, rival in rivals.items():
        if rival is None:
            verdicts += [Verdict("improvement", False, each) for each in absent(name)]
            continue
        without = champion_knows or () if name == "champion" else ()
        found = compare(trained, rival, metric, confidence=confidence, without=without)
        if found is None:
            verdicts.append(Verdict("improvement", True, incomparable(name, without)))
            continue
        comparisons[name] = found.difference
        obstacle = obstacle_of(found, "gate")
        said = sentence(name, metric, found, minimum, obstacle, confidence)
        said += of_known_tasks(champion_knows) if name == "champion" else ""
        verdicts.append(Verdict("improvement", obstacle is not None or not found.exceeds(minimum), said))
    return verdicts, comparisons
