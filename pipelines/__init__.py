"""Pipelines chain steps into runs: `train` is the whole way from tasks to the registry.

What pipelines share: `stages` calls the steps with a config's settings, `rounds` trains, and `conclusion` evaluates,
decides and registers.
"""
