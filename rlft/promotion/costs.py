"""What the trained policy may cost: how long its attempts are beside those of the model in use."""

from __future__ import annotations

from rlft.lengths import compare_lengths
from rlft.promotion.rules import Verdict
from rlft.promotion.sentences import plain
from rlft.types import EvaluationReport


def judge_length(
    trained: EvaluationReport, rival: EvaluationReport, name: str, most: float, confidence: float
) -> Verdict:
    """Return whether the attempts of the policy are shown to be at most `most` times as long as its rival's.

    `name` is the rival's.
    """
    found = compare_lengths(trained, rival, most, where="gate", confidence=confidence)
    if found is None:
        return Verdict("length", True, f"fails: the lengths of the attempts of trained or {plain(name)} are not known")
    bound = "no upper bound below 1000" if found.high is None else f"upper bound {found.high:.3g}"
    text = (
        f"{'passes' if found.holds else 'fails'}: completions of trained have {found.ours:.4g} tokens on gate, those "
        f"of {plain(name)} {found.theirs:.4g}, {found.ratio:.3g} times as many ({100 * confidence:.4g} % interval, "
        f"{bound}, {found.tasks} tasks); the bound may be {most:g}; "
        "rare long attempts that did not occur may be missing"
    )
    if found.errors:
        text += f"; {found.errors} rollouts without a score count against the trained policy"
    return Verdict("length", not found.holds, f"{text}; but {found.obstacle}" if found.obstacle else text)
