"""What a run will take in time, memory and tokens, said before it begins, as ranges (`span`).

A `probe` makes a few attempts and an update in a process of their own, which `probing` holds to its time. Its `rates`
times the `work` that a config asks for are the `estimate`; `memory` says whether there is enough, and what to lower.

`readiness` checks before anything is started whether a run can begin: its `inputs`, and the `machine`.
"""
