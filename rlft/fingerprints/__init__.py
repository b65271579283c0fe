"""Which code a result depends on, as text and as a hash: the same fingerprint means that the same code would run.

`sources` reads modules, `reachable` follows an environment's methods through them, `identity` makes hashes of it.
"""
