"""Pipelines chain steps into runs: `train` is the whole way from tasks to the registry; `cli` is the command line."""
