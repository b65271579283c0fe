"""Where an environment's code runs: threads of this process that can be left behind, and worker processes.

- `settings`: where code runs, and how much of it side by side
- `folders`: keeps the working directory of a run apart from that of the code
- `loops`: keeps one event loop for the life of an environment
- `threads`: runs plain code in a thread of its own, and asks a thread to end
- `interpreter`: shares Python's interpreter evenly between threads that both have much to do
- `loop_thread`: a thread with an event loop, which is left behind when code in it hangs
- `bounded`: runs many coroutines on such a thread, so many at once, each within a time limit
- `pool`, `process`: worker processes, which of them makes a call, and what became of it if its process ended
- `memory`: how much memory this process takes
- `child`, `frames`: what runs in a worker process, and the messages between it and this one
"""
