"""The contract between rlft and an environment, and the code that imports, checks and calls environments.

- `base`: the contract (`BaseEnv`, `Context`) and `prompt_messages`
- `marks`: the decorators `@tool`, `@reward`, `@metric`; tools made from functions; tool schemas
- `loading`: import the module that a config names, and build the environment, also in worker processes
- `several`: several environments of one run, each with its own tasks alone; environments with a specification
- `faults`: describes an error of its code with the user's line, and says what is available instead
"""
