"""Tests of rlft.rewards.specification."""
