"""Runs programs that a model wrote, under limits and shut off from the machine (docs/decisions/0008-sandbox.md).

- `base`: the interface of a sandbox
- `create`: a sandbox from its name in the config
- `bubblewrap`: the sandbox of Linux namespaces; `seccomp`, `cgroup` and `watch` hold its parts
- `plain`: a subprocess with limits, for code that is trusted
- `programs`: the programs of the system that both are started with
- `process`: a local child process that is watched from outside
"""
