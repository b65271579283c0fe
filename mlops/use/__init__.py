"""What people asked a served model, read from MLflow for `rlft.tasks.use`.

- `fetch`: all that a config's section `tasks.use` asks for
- `traces`: traces of an experiment
- `datasets`: records of an evaluation data set
"""
