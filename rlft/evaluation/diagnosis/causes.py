"""Causes that a run's reward does not rise: in what is sampled and scored, in how the policy is trained, on validation.

Each is a function of what is stored of the rounds, and says in a sentence what it has seen, and in another what to do.
The table of `rlft.evaluation.diagnosis.monitors` names them all. Without attempts that differ in reward there is
nothing to learn from; a part of the reward may pay for something else, or nobody; what was learnt may hold for the
train tasks alone, for one answer, or for a while.
"""

from __future__ import annotations

from statistics import median

from rlft.evaluation.comparison import compare
from rlft.evaluation.diagnosis.history import LEVEL, Finding, History, drifts, enough_to_see, falls, passes, rises
from rlft.evaluation.variety import COLLAPSED, named
from rlft.types import EvaluationReport

ERRORED = 0.1  # of all rollouts
TRUNCATED, NEARLY_ALL = 0.4, 0.75
HARDLY_RIGHT = 0.02  # share of right ones among those that are cut off: where an end is not needed they can be right
FAILED_CALLS = 0.5
UNANSWERED = 0.5  # of the attempts
CONTRADICTED = 0.2  # of the attempts that repeat an earlier one: none does if the reward is a function of the attempt
SAME_REWARD = 0.8  # of all groups
DUPLICATES = 0.8  # of those that are possible: the first of a group repeats none
HALF = 0.5  # of the groups
HARD, EASY = 0.05, 0.95  # share of attempts that are solved


def errors(history: History) -> Finding | None:
    """Rollouts that failed, or whose score failed."""
    counts = [report.counts() for report in history.rounds]
    sampled, errored = (sum(count[key] for count in counts) for key in ("sampled", "errored"))
    # By attempts, not by groups: what fails is no matter of the task, and an outage is worth a word.
    if not sampled or not passes(errored / sampled, ERRORED, sampled):
        return None
    return Finding(
        "errored rollouts",
        f"{errored} of {sampled} rollouts have no score, as they or their score failed, and are not trained on.",
        "`rlft show RUN ROUND --only errors` names the reasons: mend the environment, its tools or the judge first.",
    )


def truncation(history: History) -> Finding | None:
    """Completions that the limit of tokens cuts off before they end."""
    share, cut_right = history.mean("completions/clipped_ratio"), history.mean("completions/clipped_accuracy")
    if share is None or not history.passed("completions/clipped_ratio", TRUNCATED):
        return None
    if cut_right is not None and cut_right > HARDLY_RIGHT:
        return None
    right = history.mean("accuracy")
    # Where many attempts end and these are no better, it is not the end that is missing.
    if share < NEARLY_ALL and right is not None and right / (1 - share) <= HARDLY_RIGHT:
        return None
    return Finding(
        "truncation",
        f"{share:.0%} of the completions are cut off at {history.max_completion_length} tokens "
        "(rollout.max_completion_length), and next to none of these is right.",
        "Raise rollout.max_completion_length, or ask for shorter answers in the system prompt.",
    )


def failing_tools(history: History) -> Finding | None:
    """Calls of tools that fail."""
    share, calls = history.mean("tools/failure_frequency"), history.mean("tools/call_frequency")
    if share is None or calls is None or not history.passed("tools/failure_frequency", FAILED_CALLS):
        return None
    return Finding(
        "failing tools",
        f"{share:.0%} of the tool calls fail ({calls:.1f} calls an attempt).",
        "`rlft show RUN ROUND --only tool-errors` shows what the model called: name the arguments in the tools' "
        "descriptions, begin with demonstrations that call them (warm_start), or mend the tool.",
    )


def contradictions(history: History) -> Finding | None:
    """Attempts that repeat an earlier one word for word, and earn another reward."""
    share, repeated = history.mean("rewards/contradiction_ratio"), history.mean("completions/duplicate_ratio")
    if share is None or repeated is None:
        return None
    # Repeats of one text resemble each other: a group counts as one, at most.
    if not passes(share, CONTRADICTED, history.groups() * min(1.0, repeated * history.num_generations)):
        return None
    return Finding(
        "a reward that contradicts itself",
        f"{share:.0%} of the attempts that repeat an earlier one at the same task word for word earned another reward "
        "than it did, so that what is learnt from is chance.",
        "Let the reward give equal attempts the same score: a judge at temperature 0, or the mean of several of its "
        "scores; tests without time limits that are nearly reached; no random numbers.",
    )


def unanswered(history: History) -> Finding | None:
    """Attempts that end without an answer in the form that the environment reads."""
    share = history.mean("completions/unanswered_ratio")
    if share is None or not history.passed("completions/unanswered_ratio", UNANSWERED):
        return None
    return Finding(
        "answers in the wrong form",
        f"{share:.0%} of the attempts end by themselves and hold no answer, right or wrong, that the environment can "
        "read (final_answer).",
        "Say in the system prompt how an answer is marked, with an example; begin with demonstrations of the form "
        "(warm_start), or pay a small part for it.",
    )


def no_variance(history: History) -> Finding | None:
    """Groups whose attempts all earn the same reward: their advantages are 0."""
    share, solved = history.mean("frac_reward_zero_std"), history.mean("accuracy")
    if share is None or not history.passed("frac_reward_zero_std", SAME_REWARD):
        return None
    what = (
        f"In {share:.0%} of the groups all {history.num_generations} attempts earned the same reward, and such a group "
        "teaches nothing (frac_reward_zero_std)"
    )
    if solved is not None and solved <= HARD:
        return Finding(
            "tasks too hard",
            f"{what}: {solved:.1%} of the attempts are right.",
            "Take easier tasks, a stronger model, a warm start on demonstrations, or a reward with parts that can be "
            "reached; more attempts at each task (training.num_generations) help if some are ever right.",
        )
    if solved is not None and solved >= EASY:
        return Finding(
            "tasks too easy",
            f"{what}: {solved:.1%} of the attempts are right.",
            "Take harder tasks; there is hardly anything left to learn here.",
        )
    return Finding(
        "no variance within groups",
        f"{what}.",
        "Raise rollout.temperature or training.num_generations, or score what differs between attempts by a part of "
        "its own.",
    )


def duplicates(history: History) -> Finding | None:
    """Attempts of a group that are the same text."""
    # At the beginning: a policy that has learnt what to say repeats it. Tasks with two labels have few texts, too, but
    # attempts that differ in reward.
    repeated, same = history.change("completions/duplicate_ratio"), history.change("frac_reward_zero_std")
    if repeated is None or same is None:
        return None
    possible, groups = 1 - 1 / history.num_generations, history.groups(len(history.rounds) // 3)
    if not passes(min(repeated[0] / possible, 1.0), DUPLICATES, groups) or not passes(same[0], HALF, groups):
        return None
    return Finding(
        "the same attempts again",
        f"{repeated[0]:.0%} of the completions in the first third of the rounds are the same as an earlier attempt at "
        f"the same task, and in {same[0]:.0%} of the groups all attempts earned the same reward.",
        "Raise rollout.temperature (1.0 samples as the model is), leave rollout.top_p and top_k out, or take a warm "
        "start with fewer epochs.",
    )


GAINED = 0.05  # of the reward
SPREAD = 1e-6  # of a part's scores, below which they are all the same
RARE = 0.075  # of the tasks: a part that differs at fewer of them teaches next to nothing


def other_pay(history: History) -> Finding | None:
    """A reward that rises while what counts does not: something else is paid."""
    reward, solved = history.change("reward"), history.change(history.counted_in_rounds)
    spread = history.mean("reward_std")
    if reward is None or solved is None or spread is None:
        return None
    gained = reward[1] - reward[0]
    if (
        gained < max(GAINED, spread / 2)
        or not rises(history.curve("reward"), history.level)
        or solved[1] - solved[0] > gained / 4
    ):
        return None
    gains = {
        part: change[1] - change[0] for part in history.parts() if (change := history.change(f"rewards/{part}/mean"))
    }
    most = max(gains, key=lambda part: gains[part], default=None)
    which = f" Most of it is the part `{most}` ({gains[most]:+.2f})." if most else ""
    return Finding(
        "the reward pays for something else",
        f"The reward rose from {reward[0]:.2f} to {reward[1]:.2f}, and {history.counted_in_words} went from "
        f"{solved[0]:.1%} to {solved[1]:.1%}.{which}",
        "Read the attempts with the highest reward (`rlft show RUN ROUND`): lower the weight of that part, or pay it "
        "only where the answer is right.",
    )


def unpaid_part(history: History) -> Finding | None:
    """A part of the reward that no attempt has ever earned."""
    per_round = history.groups() / max(1, len(history.rounds))
    for part in history.parts():
        means, spreads = history.curve(f"rewards/{part}/mean"), history.curve(f"rewards/{part}/std")
        # Attempts at a task again, in a later round, say no more of the tasks that there are.
        count = min(per_round * len(means), history.train_tasks)
        if count < enough_to_see(RARE):
            continue
        if max(map(abs, means)) <= SPREAD and max(spreads, default=0.0) <= SPREAD:
            return Finding(
                "a part that never pays",
                f"The part `{part}` of the reward was 0 for every attempt in training, in attempts at "
                f"{count:.0f} tasks.",
                "Try it on a right answer (`rlft environments check`), and give partial credit if the model cannot "
                "reach it at all.",
            )
    return None


MISMATCH = 0.05  # nats per token between engine and trainer; bfloat16 alone makes about 0.01
COLLAPSED_ENTROPY = 0.15  # of the entropy that there was in the first third
LEAST_ENTROPY = 0.05  # nats per token: below it there is next to nothing to explore
LARGE = 0.1  # nats per token in one update; those that taught had 0.07 at most, those that destroyed 0.31 (docs/LOG.md)
MOVED = 0.02  # of the range of a reward: by how much it can have changed at most
LENGTHENED = 2.0
USUAL = "1e-5 to 1e-4 is usual for LoRA, and 1e-6 to 1e-5 for all weights of a pretrained model"


def engine_mismatch(history: History) -> Finding | None:
    """An engine that samples from another policy than the one that is trained."""
    if any(report.age for report in history.rounds):
        return None  # an earlier policy samples by design (training.lag), and differs by what was learnt since
    found = history.curve("sampling/sampling_logp_difference/mean")
    difference = median(found) if found else 0.0  # one round with outliers is no engine that samples something else
    if difference < MISMATCH:
        return None
    return Finding(
        "engine and trainer disagree",
        f"The log-probabilities of engine and trainer differ by {difference:.3f} nats per token in the median round, "
        "before any update, so that what is trained is not what was sampled.",
        "Set the same dtype for both (policy.dtype, rollout.vllm), without quantisation, and look whether the engine "
        "cuts the distribution (rollout.top_p, top_k).",
    )


def too_large_steps(history: History) -> Finding | None:
    """Updates that move the policy too far, up to rounds that were undone."""
    moves = history.curve("kl_update")
    reason = history.rounds[-1].stopped if history.rounds else None
    if reason:
        what = f"Training was stopped in round {history.rounds[-1].round}: {reason}."
    elif moves and median(moves) > LARGE:
        what = (
            f"An update moves the policy by {median(moves):.2g} nats per token in the median round (kl_update); those "
            f"that teach stay below {LARGE:g}."
        )
    else:
        return None
    return Finding(
        "learning rate too high",
        what,
        f"Lower training.learning_rate (it is {history.learning_rate:g}) to a third. Or bound the updates "
        "(training.max_grad_norm), or let it rise over the first ones (training.warmup_updates: 10).",
    )


def collapsed_entropy(history: History) -> Finding | None:
    """A policy that says one thing alone before it has found what pays."""
    change = history.change("entropy")
    if change is None or change[1] > LEAST_ENTROPY or change[1] > COLLAPSED_ENTROPY * change[0]:
        return None
    if not falls(history.curve("entropy"), history.level):
        return None
    return Finding(
        "entropy collapse",
        f"The entropy has fallen from {change[0]:.3f} to {change[1]:.3f} nats per token: the policy hardly tries "
        "anything else any more.",
        "Raise training.epsilon_high (0.28, as in DAPO) or training.beta, lower training.learning_rate, and look "
        "whether a part of the reward pays for what is always the same.",
    )


def too_small_steps(history: History) -> Finding | None:
    """Updates that hardly move the policy."""
    moves, length = history.curve("kl_update"), history.mean("completions/mean_length")
    # KL grows with the square of a step: n equal steps in one direction come to n^2 times the KL of one.
    moved = sum(max(each, 0.0) ** 0.5 for each in moves) ** 2
    # Pinsker's inequality: a mean of scores within a range changes by at most sqrt(KL / 2) of it, with the KL of whole
    # completions. So no run that has risen by more than this can be accused.
    if len(moves) < 3 or length is None or (gained := (max(length, 1.0) * moved / 2) ** 0.5) > MOVED:
        return None
    return Finding(
        "learning rate too low",
        f"The {len(moves)} rounds have moved the policy by at most {moved:.1e} nats per token (kl_update), so that the "
        f"share of solved attempts cannot have changed by more than {100 * gained:.2g} points.",
        f"Raise training.learning_rate (it is {history.learning_rate:g}): {USUAL}.",
    )


def length_drift(history: History) -> Finding | None:
    """Completions that grow or shrink, where the reward does not rise by it."""
    change = history.change("completions/mean_length")
    if change is None or not change[0] or 1 / LENGTHENED < change[1] / change[0] < LENGTHENED:
        return None
    if not drifts(history.curve("completions/mean_length"), history.level):
        return None
    grown = "grown" if change[1] > change[0] else "shrunk"
    return Finding(
        "length drift",
        f"The completions have {grown} from {change[0]:.0f} to {change[1]:.0f} tokens, and validation has not risen "
        "by it.",
        "Look whether a part of the reward pays for length, and take training.loss_type: dr_grpo, which has no bias "
        "by it.",
    )


PASSES = 20  # over the train tasks
MEMORISED = 0.1  # rise of the share of solved attempts in training that validation does not share
SAME_ANSWER = 0.8  # of the attempts in the last third of the rounds
LOST = 0.5  # of what validation had gained; of what it has lost, at the end


def memorising(history: History) -> Finding | None:
    """Training tasks that are learnt by heart."""
    change, validations = history.change("accuracy"), history.scored_validations()
    if change is None or len(validations) < 2:
        return None
    if history.curve(
        "curriculum/expected_pass_rate"
    ):  # the tasks of each round were chosen by how often they are solved
        return None
    (_, first), (_, last) = validations[0], validations[-1]
    if not (first.per_task.get("accuracy") and last.per_task.get("accuracy")):
        return None
    unseen = compare(last, first, "accuracy")
    in_training = change[1] - change[0]
    rounds_each = history.groups() / max(1, history.train_tasks)
    if (
        unseen is None
        or in_training < MEMORISED
        or rounds_each < PASSES
        or not rises(history.curve("accuracy"), history.level)
    ):
        return None
    risen, high = unseen.difference.mean, unseen.difference.high
    if risen > in_training / 2 or high >= in_training or last.metrics["accuracy"].high >= change[1]:
        return None  # validation has risen, or its tasks are too few to say that it has risen less than training
    return Finding(
        "too few tasks",
        f"The share of solved attempts rose from {change[0]:.1%} to {change[1]:.1%} in training and by "
        f"{100 * risen:+.1f} points on validation (at most {100 * high:+.1f}): the "
        f"{history.train_tasks} train tasks were attempted in {rounds_each:.0f} rounds each, and are known by heart.",
        "Take more train tasks (tasks.splits), or fewer rounds.",
    )


def constant_answer(history: History) -> Finding | None:
    """A policy that says the same to every task, greedily and when it is sampled, although the right answers differ."""
    validations, change = history.scored_validations(), history.change("completions/same_answer_ratio")
    if len(validations) < 2 or change is None:
        return None
    (_, start), (_, last) = validations[0], validations[-1]
    share, groups = change[1], history.groups(len(history.rounds) // 3)
    if last.answers != 1 or _needed(last, start) < 2 or not passes(share, SAME_ANSWER, groups, history.level):
        return None
    solved = last.metrics["accuracy"].mean if "accuracy" in last.metrics else None
    earns = "" if solved is None else f", which solves {solved:.1%} of these"
    return Finding(
        "one constant answer",
        f"{share:.0%} of the attempts of the last third of the rounds give the same answer whatever the task is, and "
        f"on validation the policy says {named(dict(list(last.frequent.items())[:1]))}{earns}.",
        "Pay a wrong answer, and no answer, no more than each other (a guess that is safe is learnt first); balance "
        "the answers of the train tasks; lower training.learning_rate or hold the policy (training.beta); begin with a "
        "policy that is right more often than the constant (warm_start).",
    )


def _needed(last: EvaluationReport, start: EvaluationReport) -> int:
    """Return how many answers tasks need, as far as that is known; 0 if it is not.

    Where tasks have a check and no answer, it is with how many the start solved some. If it solved none, a policy that
    gave many different answers before is taken to have had reason to.
    """
    if last.right_answers is not None:
        return last.right_answers
    return start.solved_answers or (start.answers if start.answers >= COLLAPSED and not last.solved_answers else 0)


def fallen_back(history: History) -> Finding | None:
    """A policy that was better before than it is at the end."""
    validations = history.scored_validations()
    if len(validations) < 3:
        return None
    (_, first), *between, (_, last) = validations
    # The best of several is the luckiest, too: each of them has its share of the chance (Bonferroni).
    confidence = 1 - 2 * LEVEL / len(between)
    for number, report in sorted(between, key=lambda each: -each[1].metrics[history.metric].mean):
        lost, gained = (compare(report, other, history.metric, confidence=confidence) for other in (last, first))
        if lost is None or gained is None or not (lost.exceeds(0) and gained.exceeds(0)):
            continue
        if lost.difference.mean >= LOST * gained.difference.mean:
            return Finding(
                "better before than at the end",
                f"On validation {history.metric} rose from {gained.before:.3f} to {lost.after:.3f} in "
                f"{_rounds(number)}, and fell to {lost.before:.3f} by the end ({lost.difference.mean:+.3f} lost, at "
                f"least {lost.difference.low:+.3f}).",
                "The best validated policy is kept. Lower training.learning_rate "
                f"(it is {history.learning_rate:g}), let it fall (training.lr_scheduler_type: linear), hold the policy "
                "near its start (training.beta: 0.01), and end at a plateau (evaluation.patience: 5).",
            )
    return None


def worse_than_start(history: History) -> Finding | None:
    """A policy that training has made worse."""
    validations = history.scored_validations()
    if len(validations) < 2:
        return None
    (_, first), *later = validations
    last = compare(first, later[-1][1], history.metric)
    # As in `fallen_back`, the worst of several is the unluckiest, too.
    confidence = 1 - 2 * LEVEL / len(later)
    for number, report in sorted(later, key=lambda each: each[1].metrics[history.metric].mean):
        lost = compare(first, report, history.metric, confidence=confidence)
        if last is None or lost is None or not lost.exceeds(0):
            continue
        if last.difference.mean >= LOST * lost.difference.mean:
            meaning, remedy = _unlearnt(history)
            return Finding(
                "worse than at the start",
                f"On validation {history.metric} fell from {lost.after:.3f} to {lost.before:.3f} in "
                f"{_rounds(number)} (by {lost.difference.low:.3f} at least), and is "
                f"{last.before:.3f} at the end: {meaning}",
                remedy,
            )
    return None


def _unlearnt(history: History) -> tuple[str, str]:
    """Return what a fall of validation means, and what to do, by what training did meanwhile."""
    change = history.change("accuracy")
    if change is not None and rises(history.curve("accuracy")):
        return (
            f"meanwhile the share of solved attempts rose from {change[0]:.1%} to {change[1]:.1%} in training, so that "
            "what is taught there is not what validation asks.",
            "Compare a few train tasks with validation tasks by eye: their answers may follow other rules (labels, "
            "units, forms), or come from another source.",
        )
    meaning = "training unlearns what the policy could do."
    return meaning, (
        f"Lower training.learning_rate (it is {history.learning_rate:g}) to a third, let it rise over the first "
        "updates (training.warmup_updates: 10), and hold the policy near its start (training.beta: 0.01)."
    )


def _rounds(number: int) -> str:
    return "1 round" if number == 1 else f"{number} rounds"
