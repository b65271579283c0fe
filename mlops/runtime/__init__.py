"""What a step needs beside its artifacts.

- `runtime`, `environment`: the policies, engine and environment of a process, which the steps of a run share
- `code`, `cache_keys`: which code a step's cached result depends on, and that it does not depend on the home's place
- `tags`: how artifacts are marked with their round
"""
