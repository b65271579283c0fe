"""`rlft reward`: a written reward explained, tried on an attempt, checked, and made of OpenAI's graders.

- `app`: the Typer application of these commands
- `explain`: a specification in words, with an attempt scored criterion by criterion
- `run`: one attempt scored
- `validate`: a specification checked without data
- `agreement`: whether it prefers what people prefer, on pairs of attempts
- `taking_over`: a specification made of one of OpenAI's graders
- `opened`: the config and its tasks, as these commands need them
- `tried`: one attempt scored, and the table of its scores
"""
