"""The tag by which the MLflow run of a pipeline run is found again; nothing heavy is imported for it."""

# With ZenML's id of the run's first attempt. MLflow shows nobody what begins with `mlflow.`
ROOT_RUN_TAG, OLD_ROOT_RUN_TAG = "mlflow.rlft.root_run", "rlft.root_run"
