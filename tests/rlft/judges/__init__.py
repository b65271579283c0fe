"""Tests of rlft.judges."""
