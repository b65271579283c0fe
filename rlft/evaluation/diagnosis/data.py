"""Causes in what is sampled and scored: without attempts that differ in reward there is nothing to learn from.

At the end stand those in the parts of the reward: what pays for something else, nobody or everybody.
"""

from __future__ import annotations

from rlft.evaluation.diagnosis.history import Finding, History, enough_to_see, passes, rises

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
    for part, count in _tasks_of_parts(history).items():
        if count < enough_to_see(RARE):
            continue
        means, spreads = history.curve(f"rewards/{part}/mean"), history.curve(f"rewards/{part}/std")
        if max(map(abs, means)) <= SPREAD and max(spreads, default=0.0) <= SPREAD:
            return Finding(
                "a part that never pays",
                f"The part `{part}` of the reward was 0 for every attempt in training, in attempts at "
                f"{count:.0f} tasks.",
                "Try it on a right answer (`rlft environments check`), and give partial credit if the model cannot "
                "reach it at all.",
            )
    return None


def free_part(history: History) -> Finding | None:
    """A part of the reward that every attempt earns."""
    for part, count in _tasks_of_parts(history).items():
        if count < enough_to_see(RARE):
            continue
        means, spreads = history.curve(f"rewards/{part}/mean"), history.curve(f"rewards/{part}/std")
        if spreads and max(spreads) <= SPREAD and min(map(abs, means)) > SPREAD:
            return Finding(
                "a part that pays everyone",
                f"The part `{part}` of the reward was {means[0]:.3g} for every attempt: it tells none from another.",
                "Leave it out, or let it measure what differs between attempts.",
            )
    return None


def _tasks_of_parts(history: History) -> dict[str, float]:
    """Return how many different tasks were attempted in the rounds that have scored a part, by its name.

    Attempts at a task again, in a later round, say no more of the tasks that there are.
    """
    per_round = history.groups() / max(1, len(history.rounds))
    groups = {part: per_round * len(history.curve(f"rewards/{part}/mean")) for part in history.parts()}
    return {part: min(count, history.train_tasks) for part, count in groups.items()}
