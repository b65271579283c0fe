"""Names that registered versions and the runs that register them share; nothing heavy is imported for them."""

ABSENT = {"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"}  # MLflow's errors for what is not there
REGISTRATION = "register_policy"  # the id of a run's last step
RUN_NAME_TAG = "zenml.run_name"  # of a version and an MLflow run: ZenML's name of the run that made it
