"""What a step needs beside its artifacts.

- `runtime`, `environment`: the policies, engine and environment of a process, which the steps of a run share
- `live_policies`, `on_ray`: of these the policies, and the trainers and engines that Ray starts
- `cache_policies`: which code a step's cached result depends on
- `signals`: what Ctrl-C, SIGTERM and a closed terminal do; signals that a process hands on to the run it has started
- `hangs`: says where code hangs in which no signal is handled, and ends its process
- `kept_warm`: that they stay in memory in a pod, too
- `taken_over`: what the pod does that takes the place of one which was ended
- `tags`: how artifacts are marked with their round
"""
