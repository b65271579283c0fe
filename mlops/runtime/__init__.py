"""What a step needs beside its artifacts.

- `runtime`, `environment`: the policies, engine and environment of a process, which the steps of a run share
- `live_policies`, `on_ray`: of these the policies, and the trainers and engines that Ray starts
- `cache_policies`: which code a step's cached result depends on
- `signals`, `interrupted`: what Ctrl-C and SIGTERM do, and the program that the process then becomes
- `hangs`: says where code hangs in which no signal is handled, and ends its process
- `kept_warm`: that they stay in memory in a pod, too
- `taken_over`: what the pod does that takes the place of one which was ended
- `handed_on`: signals that a process hands on to the run that it has started
- `last_words`, `leaving`: what a process that ends leaves; how it ends when its work is done
- `tags`: how artifacts are marked with their round
"""
