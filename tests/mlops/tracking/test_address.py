"""Where MLflow is."""

from __future__ import annotations

from mlops.tracking.address import tracking_address


def test_mlflow_of_the_home_is_where_the_home_lies_now(monkeypatch):
    monkeypatch.setenv("RLFT_TRACKING_URI", "sqlite:////now/mlflow.db")
    assert tracking_address("home") == "sqlite:////now/mlflow.db"
    assert tracking_address("https://mlflow.example.org") == "https://mlflow.example.org"
