"""`rlft reward`: a written reward explained, tried on an attempt, and checked.

- `app`: the Typer application of these commands
- `explain`: a specification in words, with an attempt scored criterion by criterion
- `run`: one attempt scored
- `validate`: a specification checked without data
- `opened`: the config and its tasks, as these commands need them
- `tried`: one attempt scored, and the table of its scores
"""
