"""What `rlft doctor` looks at: what is missing or broken on this machine, and how to mend it.

- `finding`: one result of a check
- `machine`: Python, packages, the GPU, vLLM, the sandbox, the disk
- `home`: whether the home was moved, which does not work; removals that were cut short, and what is left in its folders
- `way_on`: the command that goes on with what was cut short
- `killed`: runs that were killed, which are marked as failed on the way
"""
