"""The arms of a run have the same keys wherever they stand."""

from __future__ import annotations

from dataclasses import fields

from cli.result import ARMS
from mlops.runs.summary import Summary
from pipelines.conclusion import Arms


def test_every_arm_has_a_key_in_the_summary_and_a_row_in_the_terminal():
    keys = [field.name for field in fields(Arms)]
    assert keys == [key for key in Summary.model_fields if key in keys]
    assert keys == [key for key, _ in ARMS]
