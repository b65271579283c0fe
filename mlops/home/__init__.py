"""The home of runs, `.rlft`: made and looked at. Only `databases.make_stores` imports ZenML and MLflow.

- `folder`, `variables`: the folder; the environment variables that lead to it
- `databases`: where ZenML's and MLflow's databases lie, what keeps them from being used, and making them
- `processes`: which process runs what, and what keeps two from doing the same at once
"""
