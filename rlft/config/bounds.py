"""Bounds that several settings share. Beyond them is a mistake in typing, or what no machine computes in a lifetime."""

MOST = 1_000_000
"""The most tasks, rollouts, rounds, tokens or steps that a setting may count."""
LARGEST_SEED = 2**32 - 1
"""The largest seed that numpy and torch both take."""
LONGEST_SECONDS = 604_800.0
"""A week, the longest that anything is waited for."""
LARGEST_WEIGHT = 1e6
"""The largest weight of a part of a reward; sums of much larger ones lose their small parts to rounding."""
COLDEST, HOTTEST = 0.01, 100.0
"""The lowest and the highest temperature at which tokens are sampled: logits divided by less overflow."""
