"""What an environment is, and how one is found, called and understood when it fails.

- `base`: the contract (`BaseEnv`, `Context`) and `prompt_messages`
- `marks`, `functions`, `tools`: `@tool`, `@reward`, `@metric`; a tool from a function; tools as a model sees them
- `importing`, `loading`, `signatures`: the module that a config names, its environment, and whether the methods fit
- `calling`, `loops`: its methods with a time limit, in an event loop of their own
- `faults`, `hints`: an error of its code as a sentence with the user's line, and what there is instead
"""
