"""Where an environment's code runs: threads of this process that can be left behind, and worker processes.

- `threads`: threads that can be left behind, with an event loop or for plain code, and many jobs within time limits
- `pool`: worker processes, which of them makes a call, and what became of it if that ended; the cores here
- `child`: what runs in a worker process
"""
