"""Causes in the parts of the reward: what pays for something else, nobody or everybody."""

from __future__ import annotations

from rlft.diagnosis.evidence import enough_to_see, rises
from rlft.diagnosis.finding import Finding
from rlft.diagnosis.history import History

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
