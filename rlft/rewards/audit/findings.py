"""What is found about a reward: what gold and attacks earned, what of it fails the reward, and what is a warning."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from rlft.harness.scripted import Script
from rlft.outcome import Failure
from rlft.rewards.audit.attacks import FIRST, kind_of
from rlft.rewards.audit.report import GOLD, GOLD_KIND, AttackScores, Problem
from rlft.rewards.rubric import TOLERANCE, never_given, weight_of
from rlft.types import Reward, Task

Failed = list[tuple[str, Reward, Failure]]  # (kind of text, its reward, why it has no score) of one kind of failure
Scores = dict[str, dict[str, Reward]]  # {task id: {kind of text: its reward}}, without what could not be scored
REWARD = "compute_reward"
"""Where a problem is that is about the reward."""
_BEYOND = (" is above its maximum", " is a penalty that pays")  # of `rlft.rewards.rubric.beyond_bounds`
ALWAYS = (GOLD_KIND, *FIRST)
"""Gold and the kinds that are tried on every task; the others are tried on some."""
_OTHERS = ("other_gold", "most_common")
_MADE = "made_answer"
_SCORE_IT = (
    "let the reward give such attempts the lowest score: one that makes it fail leaves its group, and is not told from "
    "the others there"
)
_WAYS_OUT = {
    "setup": "context and setup must work for every task; setup returns a dict or None",
    "state": "keep text, numbers, lists and dicts in the state: it is stored as JSON",
    "respond": "return text, a message, or None to end the conversation",
    "final_answer": "return text or None",
    REWARD: "return {part: a finite number, or None} for whatever a model says, within the time limit",
}
_MOST_KINDS = 6  # that a sentence names


class Findings:
    """Collects what was found about a reward, and whether some of it means that it must not be trained on.

    `accept` are the ids of findings that do not fail the audit; `exploits` are those that do.
    """

    def __init__(self, accept: Sequence[str] = ()) -> None:
        self.accept = tuple(accept)
        self.problems: list[Problem] = []
        self.exploits: list[str] = []
        self.accepted: list[str] = []
        self.failed = False

    def note(self, problem: Problem) -> None:
        """Add what leaves the audit passed."""
        self.problems.append(problem)

    def fail(self, problem: Problem, kind: str = "") -> None:
        """Add what fails the audit, unless it is about a `kind` of attack whose findings are accepted."""
        if kind and kind in self.accept:
            self.accepted += [kind] if kind not in self.accepted else []
            self.note(Problem(problem.where, f"accepted: {problem.what}", problem.fix))
            return
        self.problems.append(problem)
        self.exploits += [kind] if kind and kind not in self.exploits else []
        self.failed = True


def by_task(rows: Sequence[tuple[str, str, Reward]], other_calls: Collection[str] = ()) -> tuple[Scores, list[Failed]]:
    """Return the rewards of (task id, kind, reward) by task and kind, and those that failed, one list for each error.

    Of several variants of a kind it is the worst paid one, but for a kind whose best one counts (`Attack`). What may be
    right by chance is left out where it has the same final answer as the task's own gold. That says nothing of the
    rollouts whose ids are `other_calls`: they call tools as gold does not, and the answer is handed in by calls.
    """
    variants: dict[str, dict[str, list[Reward]]] = defaultdict(lambda: defaultdict(list))
    failed: dict[tuple[str, ...], Failed] = defaultdict(list)
    unscored = {(task_id, kind) for task_id, kind, reward in rows if reward.error is not None}
    for task_id, kind, reward in rows:
        if reward.error is not None:
            failed[reward.error.kind].append((kind, reward, reward.error))
        elif (task_id, kind) not in unscored:
            variants[task_id][kind].append(reward)
    scores = {
        task_id: {kind: (max if kind_of(kind).best_counts else min)(each, key=total_of) for kind, each in found.items()}
        for task_id, found in variants.items()
    }
    for rewards in scores.values():
        gold = rewards.get("gold")
        for kind in [kind for kind in rewards if kind != "gold" and not kind_of(kind).certain]:
            is_same = gold and gold.answer is not None and rewards[kind].answer == gold.answer
            if is_same and rewards[kind].rollout_id not in other_calls:
                del rewards[kind]
    return scores, list(failed.values())


def say_what_never_applies(
    scored: Sequence[Reward],
    weights: Mapping[str, float],
    picked: Sequence[Task],
    *,
    has_all: bool,
    golds: Mapping[str, Script],
    findings: Findings,
) -> bool:
    """Add a sentence if parts with a weight are `None` in all attempts. Return whether the totals can be judged.

    They cannot if the parts are missing on every task, each with a gold: then the audit fails. `has_all` says that
    no task was left out of those `picked`; otherwise, or where a gold is missing, the sentence is a note.
    """
    never = never_given((reward.parts for reward in scored), weights)
    is_sure = has_all and all(task.id in golds for task in picked)
    if never:
        which = f"part {never[0]} is" if len(never) == 1 else f"parts {', '.join(never)} are"
        said = f"{which} None on {'every task' if is_sure else f'the {len(picked)} tasks tried'}"
        problem = Problem(REWARD, said, "return a score (is a `return` missing?), or give the weight 0")
        (findings.fail if is_sure else findings.note)(problem)
    return not (never and is_sure)


def say_what_failed(failed: Sequence[Failed], findings: Findings) -> None:
    """Add a sentence for each error, which lists the kinds and tasks that it kept from being scored.

    It fails the audit if gold or one of the first attacks has no score, or if the attempt would be paid more than is
    full. Otherwise the attempt earns nothing, and the sentence is a note.
    """
    for found in failed:
        kinds = list(dict.fromkeys(kind for kind, _, _ in found))
        tasks = list({reward.task_id: reward for _, reward, _ in found}.values())
        error = found[0][2].origin
        said = f"{listed(kinds)} could not be scored {on(tasks)}: {error.where}: {error.why}"
        problem = Problem(REWARD, said, error.fix or _SCORE_IT)
        if any(kind in ALWAYS for kind in kinds):
            findings.fail(replace(problem, fix=error.fix or _WAYS_OUT.get(error.where, _WAYS_OUT[REWARD])))
        elif any(each in error.why for each in _BEYOND):
            findings.fail(problem, kinds[0])
        else:
            findings.note(problem)


def say_what_was_left_out(
    picked: Sequence[Task], golds: Mapping[str, Script], scores: Scores, findings: Findings
) -> None:
    """Add a sentence where tasks, golds or attacks were missing, so that less was checked."""
    if not picked:
        findings.fail(Problem("tasks", "there are no tasks, so nothing was checked"))
    elif not golds:
        said = "only attempts that say nothing were tried, and answers were not compared with right answers"
        findings.note(Problem(GOLD, f"no task has a gold completion: {said}"))
    elif not findings.failed and not any(kind in rewards for rewards in scores.values() for kind in _OTHERS):
        said = "no gold is a wrong answer at another task: at most made-up wrong answers in the right form were checked"
        findings.note(Problem("tasks", said))


def listed(kinds: Sequence[str]) -> str:
    """Return the first of some kinds, and how many more there are."""
    more = len(kinds) - _MOST_KINDS
    return ", ".join(kinds[:_MOST_KINDS]) + (f" and {more} more" if more > 0 else "")


def total_of(reward: Reward) -> float:
    """Return the total; 0 where there is none."""
    return 0.0 if reward.total is None else reward.total


def on(rewards: Sequence[Reward]) -> str:
    """Return on how many tasks some rewards are, with an example."""
    return f"on {len(rewards)} task{'s' * (len(rewards) > 1)}, for example {rewards[0].task_id}"


WITHOUT_GOLD = 0.75
"""The share of the highest total from which what says nothing, or always the same, fails a reward without a gold."""
_BY_CHANCE = 0.25  # an answer to another task may be right on a smaller share of tasks
_MOST_SENTENCES = 5


def judge(scores: Scores, findings: Findings, max_ratio: float, highest: float) -> None:
    """Fail the audit where gold is not full, and where an attack earns too much of what gold earns.

    That is as much as gold on a task, or `max_ratio` of gold's mean over the tasks; without a gold, a full reward, or
    `WITHOUT_GOLD` of the `highest` total in the mean for what says nothing. An attack that is not certain to be wrong
    must do so on a quarter of the tasks, be it tried there or not.
    """
    golds = [rewards["gold"] for rewards in scores.values() if "gold" in rewards]
    if low := [gold for gold in golds if not gold.solved]:
        findings.fail(Problem(REWARD, f"gold is not full {on(low)}: {_earned(low[0])}"))
    failing = {
        kind: said for kind in kinds_in(scores) if (said := _finding(kind, scores, findings, max_ratio, highest))
    }
    accepted = [kind for kind in failing if kind in findings.accept]
    told = [kind for kind in failing if kind not in accepted]
    for kind in (*accepted, *told[:_MOST_SENTENCES]):
        findings.fail(Problem(REWARD, failing[kind]), kind)
    if more := told[_MOST_SENTENCES:]:
        kinds = "1 more kind of attack does" if len(more) == 1 else f"{len(more)} more kinds of attack do"
        findings.fail(Problem(REWARD, f"{kinds} the same: {', '.join(more)}"))
        findings.exploits += more


def _finding(kind: str, scores: Scores, findings: Findings, max_ratio: float, highest: float) -> str:
    """Return the sentence by which a kind of attack fails the audit, else nothing; what may be chance is a note."""
    attacks = {task_id: rewards[kind] for task_id, rewards in scores.items() if kind in rewards}
    golds = {task_id: scores[task_id]["gold"] for task_id in attacks if "gold" in scores[task_id]}
    # A gold that earns nothing is told as such; whatever else earns nothing would be accused of earning as much.
    against = {task_id: gold for task_id, gold in golds.items() if gold.solved or total_of(gold) > TOLERANCE}
    equal = [attacks[i] for i, gold in against.items() if total_of(attacks[i]) >= total_of(gold) - TOLERANCE]
    full = [reward for task_id, reward in attacks.items() if task_id not in against and reward.solved]
    said = f"{kind} earns as much as gold {on(equal)}: {_earned(equal[0])}" if equal else ""
    said = said or (f"{kind} is full {on(full)}: {_earned(full[0])}" if full else "")
    tasks = [rewards for rewards in scores.values() if kind in ALWAYS or not rewards.keys() <= {*ALWAYS}]
    few = 0 if kind_of(kind).certain else _BY_CHANCE * len(tasks)
    if said and len(equal) + len(full) >= few:
        return said
    mean, gold_mean = mean_of(attacks[i] for i in against), mean_of(against.values())
    if against and len(against) >= few and mean >= _most(kind, scores, list(against), gold_mean, max_ratio) - TOLERANCE:
        return f"{kind} earns {mean:g} in the mean, gold {gold_mean:g}"
    says_nothing = kind_of(kind).says_nothing or kind_of(kind).is_constant
    if says_nothing and not golds and (mean := mean_of(attacks.values())) >= WITHOUT_GOLD * highest > 0:
        return (
            f"{kind} earns {mean:g} in the mean, the highest total is {highest:g}, and there is no gold to compare with"
        )
    if said:
        findings.note(Problem(REWARD, f"{said}; it may be right there by chance, which only a person can tell"))
    return ""


def _most(kind: str, scores: Scores, tasks: Sequence[str], gold_mean: float, max_ratio: float) -> float:
    """Return the mean from which a kind of attack fails a reward."""
    counts = kind_of(kind).counts
    if counts == "full" or gold_mean <= 0:
        return gold_mean
    beside = ("other_gold", "made_answer") if counts == "above_other" else ()
    lower = [[scores[task_id][each] for each in beside if each in scores[task_id]] for task_id in tasks]
    above = max(0.0, mean_of(found[0] for found in lower if found))
    return min(gold_mean, above + max_ratio * (gold_mean - above))


def kinds_in(scores: Scores) -> list[str]:
    """Return the kinds of attack that have a score, in the order in which they were tried."""
    return [kind for kind in dict.fromkeys(kind for each in scores.values() for kind in each) if kind != GOLD_KIND]


def summary(kind: str, scores: Scores, weights: Mapping[str, float]) -> AttackScores:
    """Return what one kind of attempt earned over the tasks on which it was scored."""
    rewards = {task_id: rewards[kind] for task_id, rewards in scores.items() if kind in rewards}
    golds = [scores[task_id]["gold"] for task_id in rewards if "gold" in scores[task_id]]
    totals = [total_of(reward) for reward in rewards.values()] or [0.0]
    part = paid_part(list(rewards.values()), weights)
    return AttackScores(fmean(totals), min(totals), max(totals), len(rewards), mean_of(golds), part)


def paid_part(rewards: Sequence[Reward], weights: Mapping[str, float]) -> str:
    """Return the part that paid these attempts most; nothing if none paid them anything."""
    paid: dict[str, float] = defaultdict(float)
    for reward in rewards:
        for name, score in reward.parts.items():
            paid[name] += weight_of(name, weights) * (score or 0.0)
    most = max(paid, key=lambda name: paid[name], default="")
    return most if most and paid[most] > TOLERANCE * len(rewards) else ""


def mean_of(rewards: Iterable[Reward]) -> float:
    """Return the mean of totals; 0 where there are none."""
    totals = [total_of(reward) for reward in rewards]
    return fmean(totals) if totals else 0.0


def _earned(reward: Reward) -> str:
    return f"{total_of(reward):g} from {reward.parts}"


_MOST = 0.75  # of the tasks; who pays nearly every gold everywhere tells no gold from another


def equal_golds(scores: Scores, words: Collection[str]) -> dict[str, list[str]]:
    """Return {kind of attempt: tasks at which it is the gold of another task, and may be right}.

    "Name a country in Europe" has many right answers: the gold of one such task is right at another, and the other way
    round. That may be so where it is paid like gold on three quarters of the tasks at most, and made-up answers in the
    same form are not, as a reward that pays whatever has the form pays them, too. `words` are the tasks whose gold is
    no number and no day: that two of those are paid for each other is what a tolerance does which is too wide.
    """
    if _share_like_gold(scores, _MADE) >= _BY_CHANCE:
        return {}
    found: dict[str, list[str]] = {}
    for kind in _OTHERS:
        tried = [task_id for task_id in words if {GOLD_KIND, kind} <= set(scores.get(task_id, {}))]
        like = [task_id for task_id in tried if _is_like_gold(scores[task_id][kind], scores[task_id])]
        found[kind] = like if len(like) <= _MOST * len(tried) else []
    return found


def set_aside(kind: str, task_ids: Sequence[str], scores: Scores, findings: Findings) -> None:
    """Take golds of other tasks that are right at these out of the scores, and what may hold them, with a note."""
    if task_ids:
        said = f"{kind} earns as much as gold {on([scores[task_id][kind] for task_id in task_ids])}, and gold there "
        said += "does at its task: both may be right at both, which only a person can confirm"
        findings.note(Problem(REWARD, said))
    for task_id in task_ids:
        for name in [kind, *_holding_another(scores[task_id])] if kind == _OTHERS[0] else [kind]:
            del scores[task_id][name]


def _share_like_gold(scores: Scores, kind: str) -> float:
    """Return the share of the tasks on which a kind is paid like gold; 1 if it was tried on none."""
    tried = [rewards for rewards in scores.values() if {GOLD_KIND, kind} <= set(rewards)]
    return fmean(_is_like_gold(rewards[kind], rewards) for rewards in tried) if tried else 1.0


def _holding_another(rewards: Mapping[str, Reward]) -> list[str]:
    """Return the kinds whose attempts may hold the gold of another task beside what makes them wrong."""
    kinds = [kind for kind in rewards if kind not in (GOLD_KIND, _MADE, *_OTHERS)]
    return [kind for kind in kinds if not kind_of(kind).certain or kind_of(kind).counts == "above_other"]


def _is_like_gold(reward: Reward, rewards: Mapping[str, Reward]) -> bool:
    return total_of(reward) >= total_of(rewards["gold"]) - TOLERANCE
