"""What a step needs beside its artifacts.

- `runtime`: the policies, engine and environment of a process, which the steps of a run share, and the trainers and
  engines that Ray starts; how artifacts are marked with their round
- `environment`: loads the environment of a config
- `cache_policies`: which code a step's cached result depends on
- `signals`: what Ctrl-C, SIGTERM and a closed terminal do; signals that a process hands on to the run it has started
- `hangs`: says where code hangs in which no signal is handled, and ends its process
- `pods`: that state stays in memory in a pod, too, and what the pod does that takes the place of one which was ended
"""
