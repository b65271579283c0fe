"""Tries again what a registry refuses because another run has written at the same moment."""

from __future__ import annotations

from mlflow.exceptions import MlflowException
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

retried = retry(
    # Two that set an alias or a tag at once may both try to insert it, which a database refuses to the second.
    retry=retry_if_exception_type(MlflowException),
    stop=stop_after_attempt(5),
    wait=wait_random_exponential(0.1, 2),
    reraise=True,
)
