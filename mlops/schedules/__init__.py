"""Schedules of a home: what was applied, what is due, and the processes that look after runs.

- `settings`: those of a schedule's file, and when it is due
- `reasons`: whether there is a reason to run
- `store`: the schedules, what each has seen, and what came of its due times, as plain files; the lock of its runs
- `facts`: what the reasons to run are about
- `firing`: one due time, from its reason to its end, with its run and further tries; what waits for all of them
- `notify`: who is told
- `cluster`: schedules that a cluster keeps
"""
