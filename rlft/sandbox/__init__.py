"""Runs programs that a model wrote, under limits and shut off from the machine (docs/decisions/0008-sandbox.md).

- `base`: the interface of a sandbox
- `create`: a sandbox from its name in the config; `none` is a subprocess with limits, for code that is trusted
- `bubblewrap`: the sandbox of Linux namespaces, with its filter of system calls
- `process`: a local child process, and all below it, watched from outside
"""
