"""Which code a result depends on, as text and as a hash: the same fingerprint means that the same code would run.

- `sources`: modules as text, and what they import
- `analysis`: the code of a loaded environment or module: which statements its harness and its reward lead to
- `identity`: hashes of such code, for cache keys
"""
