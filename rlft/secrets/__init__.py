"""Secrets: which settings look like one, how a setting names a variable instead, and how a text is rid of them.

Importable without torch. One definition serves the check of a config and what is written to MLflow, logs and files.
"""

from rlft.secrets.find import find_secrets, hide_secrets
from rlft.secrets.hiding import hide, hide_in, hide_in_logs, hiding
from rlft.secrets.texts import MASK, redact
from rlft.secrets.variables import misspelt_variables, named_variables, require, resolve, without_variables

__all__ = [
    "MASK",
    "find_secrets",
    "hide",
    "hide_in",
    "hide_in_logs",
    "hide_secrets",
    "hiding",
    "misspelt_variables",
    "named_variables",
    "redact",
    "require",
    "resolve",
    "without_variables",
]
