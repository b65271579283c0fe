"""Tests of rlft.rewards.judges."""
