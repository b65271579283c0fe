"""Causes in what is sampled and scored: without attempts that differ in reward there is nothing to learn from."""

from __future__ import annotations

from rlft.diagnosis.finding import Finding
from rlft.diagnosis.history import History

ERRORED = 0.1  # of all rollouts
TRUNCATED = 0.4
CUT_AND_RIGHT = 0.02  # share of right ones among those that are cut off: where an end is not needed they can be right
FAILED_CALLS = 0.5
SAME_REWARD = 0.8  # of all groups
GAINED = 0.05  # of the reward
DUPLICATES = 0.75  # of all rollouts
HARD, EASY = 0.05, 0.95  # share of attempts that are solved
SPREAD = 1e-6  # of a part's scores, below which they are all the same


def errors(history: History) -> Finding | None:
    """Rollouts that failed, or whose score failed."""
    counts = [report.counts() for report in history.rounds]
    sampled, errored = (sum(count[key] for count in counts) for key in ("sampled", "errored"))
    if not sampled or errored / sampled < ERRORED:
        return None
    return Finding(
        "errored rollouts",
        f"{errored} of {sampled} rollouts have no score, as they or their score failed, and are not trained on.",
        "`rlft show RUN ROUND --only errors` names the reasons: mend the environment, its tools or the judge first.",
    )


def truncation(history: History) -> Finding | None:
    """Completions that the limit of tokens cuts off before they end."""
    share, solved = history.mean("completions/clipped_ratio"), history.mean("completions/clipped_accuracy")
    if share is None or share < TRUNCATED or (solved is not None and solved > CUT_AND_RIGHT):
        return None
    return Finding(
        "truncation",
        f"{share:.0%} of the completions are cut off at {history.max_completion_length} tokens "
        "(rollout.max_completion_length), and next to none of these is right.",
        "Raise rollout.max_completion_length, or ask for shorter answers in the system prompt.",
    )


def other_pay(history: History) -> Finding | None:
    """A reward that rises while the share of solved attempts does not: something else is paid."""
    reward, solved = history.change("reward"), history.change("accuracy")
    spread = history.mean("reward_std")
    if reward is None or solved is None or spread is None:
        return None
    gained = reward[1] - reward[0]
    if gained < max(GAINED, spread / 2) or solved[1] - solved[0] > gained / 4:
        return None
    rises = {
        part: change[1] - change[0] for part in history.parts() if (change := history.change(f"rewards/{part}/mean"))
    }
    most = max(rises, key=lambda part: rises[part], default=None)
    which = f" Most of it is the part `{most}` ({rises[most]:+.2f})." if most else ""
    return Finding(
        "the reward pays for something else",
        f"The reward rose from {reward[0]:.2f} to {reward[1]:.2f}, and the share of solved attempts went from "
        f"{solved[0]:.1%} to {solved[1]:.1%}.{which}",
        "Read the attempts with the highest reward (`rlft show RUN ROUND`): lower the weight of that part, or pay it "
        "only where the answer is right.",
    )


def failing_tools(history: History) -> Finding | None:
    """Calls of tools that fail."""
    share, calls = history.mean("tools/failure_frequency"), history.mean("tools/call_frequency")
    if share is None or calls is None or share < FAILED_CALLS:
        return None
    return Finding(
        "failing tools",
        f"{share:.0%} of the tool calls fail ({calls:.1f} calls an attempt).",
        "`rlft show RUN ROUND --only tool-errors` shows what the model called: name the arguments in the tools' "
        "descriptions, begin with demonstrations that call them (warm_start), or mend the tool.",
    )


def unpaid_part(history: History) -> Finding | None:
    """A part of the reward that no attempt has ever earned."""
    for part in history.parts():
        means, spreads = history.curve(f"rewards/{part}/mean"), history.curve(f"rewards/{part}/std")
        if max(map(abs, means)) <= SPREAD and max(spreads, default=0.0) <= SPREAD:
            return Finding(
                "a part that never pays",
                f"The part `{part}` of the reward was 0 for every attempt of all {len(history.rounds)} rounds.",
                "Try it on a right answer (`rlft environments check`), and give partial credit if the model cannot "
                "reach it at all.",
            )
    return None


def no_variance(history: History) -> Finding | None:
    """Groups whose attempts all earn the same reward: their advantages are 0."""
    share, solved = history.mean("frac_reward_zero_std"), history.mean("accuracy")
    if share is None or share < SAME_REWARD:
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
    # At the beginning: a policy that has learnt what to say repeats it.
    change = history.change("completions/duplicate_ratio")
    if change is None or (share := change[0]) < DUPLICATES:
        return None
    return Finding(
        "the same attempts again",
        f"{share:.0%} of the completions are the same as an earlier attempt at the same task, so that a group holds "
        "few different ones to compare.",
        "Raise rollout.temperature (1.0 samples as the model is), leave rollout.top_p and top_k out, or take a warm "
        "start with fewer epochs.",
    )


def free_part(history: History) -> Finding | None:
    """A part of the reward that every attempt earns."""
    for part in history.parts():
        means, spreads = history.curve(f"rewards/{part}/mean"), history.curve(f"rewards/{part}/std")
        if spreads and max(spreads) <= SPREAD and min(map(abs, means)) > SPREAD:
            return Finding(
                "a part that pays everyone",
                f"The part `{part}` of the reward was {means[0]:.3g} for every attempt: it tells none from another.",
                "Leave it out, or let it measure what differs between attempts.",
            )
    return None
