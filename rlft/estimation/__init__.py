"""What a run will take in time, memory and tokens, said before it begins, as ranges (`machine.Span`).

A `probe` makes a few attempts and an update in a process of its own. What it took, times the work that a config asks
for, is the `estimate`; `machine` says whether there is enough memory, and what to lower. `readiness` checks before
anything is started whether a run can begin: its inputs, and the machine.
"""
