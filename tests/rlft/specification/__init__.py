"""Tests of rlft.specification."""
