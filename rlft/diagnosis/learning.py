"""Causes in how the policy is trained on what was sampled."""

from __future__ import annotations

from rlft.diagnosis.finding import Finding
from rlft.diagnosis.history import History

MISMATCH = 0.05  # nats per token between engine and trainer; bfloat16 alone makes about 0.01
CLIPPED = 0.3  # of the ratios
COLLAPSED = 0.15  # of the entropy that there was in the first third
LEAST_ENTROPY = 0.05  # nats per token: below it there is next to nothing to explore
EXPLODED = 2.0  # times the entropy that there was
MOVED = 1e-5  # nats per token between the policies before and after all rounds, if all moved in one direction
LENGTHENED = 2.0
PASSES = 20  # over the train tasks
MEMORISED = 0.1  # rise of the share of solved attempts in training that validation does not share


def engine_mismatch(history: History) -> Finding | None:
    """An engine that samples from another policy than the one that is trained."""
    difference = history.mean("sampling/sampling_logp_difference/mean")
    if difference is None or difference < MISMATCH:
        return None
    return Finding(
        "engine and trainer disagree",
        f"The log-probabilities of engine and trainer differ by {difference:.3f} nats per token in the mean before any "
        "update, so that what is trained is not what was sampled.",
        "Set the same dtype for both (policy.dtype, rollout.vllm), without quantisation, and look whether the engine "
        "cuts the distribution (rollout.top_p, top_k).",
    )


def too_large_steps(history: History) -> Finding | None:
    """Rounds that were undone, since the policy moved too far or the numbers went wrong."""
    if not history.rounds or not (reason := history.rounds[-1].stopped):
        return None
    return Finding(
        "learning rate too high",
        f"Training was stopped in round {history.rounds[-1].round}: {reason}.",
        f"Lower training.learning_rate (it is {history.learning_rate:g}) to a third, or bound the updates "
        "(training.max_grad_norm, warmup_updates).",
    )


def collapsed_entropy(history: History) -> Finding | None:
    """A policy that says one thing alone before it has found what pays."""
    change = history.change("entropy")
    if change is None or change[1] > LEAST_ENTROPY or change[1] > COLLAPSED * change[0]:
        return None
    return Finding(
        "entropy collapse",
        f"The entropy has fallen from {change[0]:.3f} to {change[1]:.3f} nats per token: the policy hardly tries "
        "anything else any more.",
        "Raise training.epsilon_high (0.28, as in DAPO) or training.beta, lower training.learning_rate, and look "
        "whether a part of the reward pays for what is always the same.",
    )


def exploded_entropy(history: History) -> Finding | None:
    """A policy that has become noise."""
    change = history.change("entropy")
    if change is None or change[1] < EXPLODED * change[0] or change[1] - change[0] < 0.5:
        return None
    return Finding(
        "entropy explosion",
        f"The entropy has risen from {change[0]:.2f} to {change[1]:.2f} nats per token: the policy unlearns what it "
        "could say.",
        f"Lower training.learning_rate (it is {history.learning_rate:g}), or hold the policy near its start "
        "(training.beta: 0.01).",
    )


def clipping(history: History) -> Finding | None:
    """Ratios that are clipped, so that their tokens have no gradient."""
    share = history.mean("clip_ratio/region_mean")
    if share is None or share < CLIPPED:
        return None
    return Finding(
        "clipped ratios",
        f"{share:.0%} of the importance ratios are clipped, and what is clipped is not trained on.",
        "Make fewer updates from one round (training.updates_per_round, num_iterations), or lower "
        f"training.learning_rate (it is {history.learning_rate:g}).",
    )


def too_small_steps(history: History) -> Finding | None:
    """Updates that hardly move the policy."""
    moves = history.curve("kl_update")
    # KL grows with the square of a step: n equal steps in one direction come to n^2 times the KL of one.
    moved = sum(max(each, 0.0) ** 0.5 for each in moves) ** 2
    if len(moves) < 3 or moved > MOVED:
        return None
    return Finding(
        "learning rate too low",
        f"The {len(moves)} rounds have moved the policy by at most {moved:.1e} nats per token (kl_update), which no "
        "reward can show.",
        f"Raise training.learning_rate (it is {history.learning_rate:g}) tenfold; with LoRA 1e-5 to 1e-4 is usual.",
    )


def memorising(history: History) -> Finding | None:
    """Training tasks that are learnt by heart."""
    change, numbers = history.change("accuracy"), sorted(history.validations)
    if change is None or len(numbers) < 2:
        return None
    first, last = (history.validations[number].metrics.get("accuracy") for number in (numbers[0], numbers[-1]))
    if first is None or last is None:
        return None
    in_training, unseen = change[1] - change[0], last.mean - first.mean
    passes = sum(report.counts()["sampled"] for report in history.rounds) / max(
        1, history.train_tasks * history.num_generations
    )
    if in_training < MEMORISED or unseen > in_training / 2 or passes < PASSES:
        return None
    return Finding(
        "too few tasks",
        f"The share of solved attempts rose from {change[0]:.1%} to {change[1]:.1%} in training and by "
        f"{100 * unseen:+.1f} points on validation: the {history.train_tasks} train tasks were attempted in "
        f"{passes:.0f} rounds each, and are known by heart.",
        "Take more train tasks (tasks.splits), or fewer rounds.",
    )


def length_drift(history: History) -> Finding | None:
    """Completions that grow or shrink, where the reward does not rise by it."""
    change = history.change("completions/mean_length")
    if change is None or not change[0] or 1 / LENGTHENED < change[1] / change[0] < LENGTHENED:
        return None
    grown = "grown" if change[1] > change[0] else "shrunk"
    return Finding(
        "length drift",
        f"The completions have {grown} from {change[0]:.0f} to {change[1]:.0f} tokens, and the reward has not risen by "
        "it.",
        "Look whether a part of the reward pays for length, and take training.loss_type: dr_grpo, which has no bias "
        "by it.",
    )
