"""Pipelines chain steps into runs: `train` is the whole way from tasks to the registry.

`stages`, `rounds` and `conclusion` are what pipelines share.
"""
