"""What is said of an error of a tracking server is one line without secrets."""

from __future__ import annotations

from mlops.tracking.values import reason_of, short


def test_a_reason_is_one_line_without_the_password_of_the_server():
    cause = ConnectionError("postgresql://me:hunter2@there refused\nat line 7")
    said = reason_of(cause, "postgresql://me:hunter2@there")
    assert said.startswith("ConnectionError: postgresql://")
    assert said.endswith("@there refused")
    assert "hunter2" not in said
    assert len(short("y" * 400, "")) == 300
