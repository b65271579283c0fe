"""What is written of runs that go on.

- `run`: into the MLflow run and the summary of one run
- `replay`: into the MLflow run and the summary of a rescoring or a retraining
- `evaluation`: into the summary of an evaluation of models
- `sweep`, `sweep_curves`: into the MLflow run above the runs of a sweep, with their means, also over the rounds
"""
