"""The home of runs, `.rlft`: made and looked at. Only `stores` imports ZenML and MLflow.

- `folder`, `variables`, `settings`: the folder; the environment variables that lead to it; ZenML's settings in it
- `stores`, `databases`: making the two databases; what they are and whether they are whole
- `entries`: what lies there that should be something else
- `faults`: what is wrong with them, in sentences
- `processes`: which process runs what
- `locks`: what keeps two processes from doing the same at once
"""
