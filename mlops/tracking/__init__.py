"""What a run logs to MLflow.

- `address`: where MLflow is, with which credentials, and whether it answers
- `run`: the MLflow run, which never stops training, and what it has noted of its code
- `values`: what is logged, in the form that MLflow takes
- `traces`: rollouts as conversations that MLflow shows
- `evaluation`: evaluations of models, in the shape of MLflow's own
"""
