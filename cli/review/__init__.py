"""`rlft review`: people asked about attempts of a run in MLflow, and what they said brought back.

- `app`: the Typer application, in which `rlft review RUN` is `rlft review ask RUN`
- `ask`: attempts put into a review queue
- `collect`: what people said, as answers, cases and preferences
- `reviewed`: the run, its MLflow and its tasks, as both need them
"""
