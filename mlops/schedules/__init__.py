"""Schedules of a home: what was applied, what is due, and the processes that look after runs.

A scheduled run is three processes, so that none takes another down: what waits for the time (`rlft schedule run`),
what looks after one firing, and `rlft run` itself. All that they know is in the store.

- `store`: the schedules, in one small database; `firings`: each due time, and what came of it
- `lock`: what keeps two runs of a schedule from going on at once
- `facts`: what the reasons to run are about
- `watch`: one firing, while no other run of its schedule goes on; `watching`: what that works with
- `settling`: from the reason of a firing to its end; `judging`: whether it has a reason; `ending`: what came of it
- `starting`: the commands of a run; `outcome`: what came of one
- `notify`: who is told; `variables`: what a schedule has in its environment, such as the address for that
- `scheduler`: what waits for the time
- `lines`: what begins that with the machine
- `cluster`: schedules that a cluster keeps
"""
