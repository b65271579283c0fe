"""The command line: one file for each command, and what all of them share.

- `app`: the commands `run`, `resume`, `audit` and `stack`, and where the others are attached
- `environments`, `show`, `doctor`, `ui`: the command of that name, or its group
- `start`, `result`: what is looked at before a run, and what is said after it
- `conversation`, `scaffold`: how one conversation is printed; the files of a new environment
- `guard`, `interrupt`, `interrupted`: errors as sentences with an exit code; what Ctrl-C does, and the program after it
"""
