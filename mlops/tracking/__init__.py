"""MLflow: `run` logs without ever stopping a run, `missed` keeps what could not be logged, `reach` tests the server.

`values` turns what is logged into what MLflow takes, `traces` and `spans` make conversations traces, `sft_curves` logs
supervised training, and `address` says where the server is.
"""
