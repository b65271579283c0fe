"""What `rlft doctor` looks at: what is missing or broken on this machine, and how to mend it.

- `finding`: one result of a check
- `machine`: Python, packages, the GPU, vLLM, the sandbox, the disk
- `home`: whether the home can be used, and runs that were killed, which are marked as failed on the way
"""
