"""The home of runs, `.rlft`: made and looked at. Only `stores` imports ZenML and MLflow.

- `folder`, `variables`: the folder; the environment variables that lead to it
- `databases`, `stores`: where ZenML's and MLflow's databases lie; making them
- `faults`: what keeps a home from being used, in sentences
- `processes`: which process runs what
- `locks`: what keeps two processes from doing the same at once
"""
