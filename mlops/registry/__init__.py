"""MLflow's registry: `versions` registers a policy and promotes it, `served_policy` is what a version answers with."""
