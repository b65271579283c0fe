"""Attempts of a run in MLflow's review queue: people are asked, and what they said is read back.

- `asking`: the questions, the queue, and the attempts in it
- `said`: what people said of them
"""
