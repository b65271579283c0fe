"""Which code a result depends on, as text and as a hash: the same fingerprint means that the same code would run.

- `sources`: modules as text, and what they import
- `pieces`: a module taken apart into statements, and the names that each of them binds
- `analysis`: which statements an environment's harness and its reward lead to
- `reachable`: the code of a loaded environment or module
- `identity`: hashes of such code, for cache keys
"""
