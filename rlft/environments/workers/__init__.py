"""Where an environment's code runs: threads of this process that can be left behind, and worker processes.

- `folders`: keeps the working directory of a run apart from that of the code
- `threads`: threads that can be left behind, with an event loop or for plain code
- `bounded`: runs many coroutines on such a thread, so many at once, each within a time limit
- `pool`, `process`: worker processes, which of them makes a call, and what became of it if its process ended
- `child`: what runs in a worker process, and the messages between it and this one
- `machine`: the cores and the memory of this process
"""
