"""What a step needs beside its artifacts.

- `runtime`, `environment`: the engine and the environment of a process, which steps of a run share
- `code`, `cache_keys`: which code a step's cached result depends on, wherever the home lies
- `tags`: how artifacts are marked with experiment, run and round
"""
